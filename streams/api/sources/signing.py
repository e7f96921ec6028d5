"""Signs a delivery as a source's vendor would, so that a person can send a test.

Whoever holds the admin token can set a source's secret and submit events already. The signature of
one body is told, and never the secret.
"""

from __future__ import annotations

import base64

import structlog

from ingress.schemes import SCHEMES, SignedRequest, sign
from streams.api.operator_state import AppState
from streams.api.refusal import Refusal, invalid
from streams.api.rows.json_values import Json
from streams.api.sources.changes import known_source, require_secret
from streams.api.sources.sign_request import SignRequest
from streams.errors import SignatureError, VaultError
from streams.process.wall_clock import wall_ms
from streams.serde.records import TenantRecord
from streams.tenants.settings import source_settings
from streams.tenants.source_keys import open_secret

log = structlog.get_logger(__name__)


async def signed(state: AppState, tenant_id: str, name: str, wanted: SignRequest) -> Json:
    """Return a delivery that is signed under the source's newest secret.

    Raises:
        Refusal: 404, there is no such source; otherwise as of `signed_for`.
    """
    record = await known_source(state, tenant_id, name)
    found = signed_for(state, record, wanted.unsigned(wall_ms() / 1000))
    await state.audited(state.entry(name, tenant_id))
    log.info("a delivery was signed", tenant=record.tenant_id, source=record.id)
    return {
        "url": found.url,
        "headers": dict(found.headers),
        "body_base64": base64.b64encode(found.body).decode(),
    }


def signed_for(state: AppState, record: TenantRecord, request: SignedRequest) -> SignedRequest:
    """Return a delivery that is signed under the newest secret of a source.

    Raises:
        Refusal: 409, the operator does not have what signs for this source; 422, the scheme cannot
            sign this body.
    """
    settings = source_settings(record)
    require_private(settings.scheme)
    secret = _secret(state, record)
    try:
        return sign(settings.scheme, secret, request, settings.options)
    except SignatureError as error:
        if error.reason == "bad_secret":
            detail = f"the source's secret {error}: sign with a --secret-file"
            raise Refusal(409, "cannot-sign", detail) from None
        raise invalid("body_base64", str(error)) from None


def require_private(name: str) -> None:
    """Check that this version knows the scheme, and that a source's secret can sign for it.

    Raises:
        Refusal: 409, it does not, or the secret cannot.
    """
    scheme = SCHEMES.get(name)
    if scheme is None:
        known = ", ".join(SCHEMES)
        detail = f"this operator does not know the source's scheme {name!r}, only {known}"
        remedy = "upgrade the operator, or set another scheme for the source"
        raise Refusal(409, "cannot-sign", f"{detail}: {remedy}")
    if scheme.public_key:
        detail = f"the secret of {name} is the sender's public key, which only verifies"
        raise Refusal(409, "cannot-sign", f"{detail}: sign with the private one, --secret-file")


def _secret(state: AppState, record: TenantRecord) -> bytes:
    """Return the source's newest secret.

    Raises:
        Refusal: 409, the operator does not have it.
    """
    require_secret(record)
    newest = record.keys[0]
    if newest.sealed is None:
        where = f"its secret is kept at {newest.reference}, which the operator does not read"
        raise Refusal(409, "cannot-sign", f"{where}: sign with a copy in a --secret-file")
    try:
        return open_secret(state.vault, record, newest.sealed)
    except VaultError as error:
        raise Refusal(409, "cannot-sign", f"its secret cannot be opened: {error}") from None
