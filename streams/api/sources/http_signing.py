"""The call that signs a delivery as a source's vendor would, so that a person can send a test.

Whoever holds the admin token can set a source's secret and submit events already. The call tells
the signature of one body and never the secret.
"""

from __future__ import annotations

import base64
import binascii
from typing import Annotated

import structlog
from aiohttp import web
from pydantic import AfterValidator, Field

from ingress.schemes import SCHEMES, SignedRequest, sign
from streams.api.fields import Body, WebLink
from streams.api.operator_state import AppState
from streams.api.refusal import Refusal, invalid
from streams.api.serving.request_body import read_body
from streams.api.serving.state import STATE
from streams.api.tenants.http import SOURCE, known_source, require_secret
from streams.errors import SignatureError, VaultError
from streams.process.wall_clock import wall_ms
from streams.serde.records import TenantRecord
from streams.tenants.settings import source_settings
from streams.tenants.source_keys import open_secret

routes = web.RouteTableDef()
log = structlog.get_logger(__name__)

MAX_SIGNED_BYTES = 36 * 1024 * 1024
"""Of the request: the largest body that a source takes, 25 MiB, in base64."""


def _base64(text: str) -> str:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("must be base64") from None
    return text


class SignRequest(Body):
    """A delivery before it is signed; `url` is the one that it will be sent to."""

    url: WebLink
    body_base64: Annotated[str, AfterValidator(_base64)]
    headers: dict[str, str] = Field(default_factory=dict)

    def unsigned(self, now: float) -> SignedRequest:
        body = base64.b64decode(self.body_base64)
        return SignedRequest(self.headers, body, self.url, "POST", now)


@routes.post(SOURCE + "/sign")
async def sign_delivery(request: web.Request) -> web.Response:
    """Sign a delivery under the source's newest secret; see `SignRequest`."""
    larger = request.clone(client_max_size=MAX_SIGNED_BYTES)
    wanted = await read_body(larger, SignRequest)
    record = await known_source(request)
    found = _signed(request.app[STATE], record, wanted.unsigned(wall_ms() / 1000))
    log.info("a delivery was signed", tenant=record.tenant_id, source=record.id)
    return web.json_response(
        {
            "url": found.url,
            "headers": dict(found.headers),
            "body_base64": base64.b64encode(found.body).decode(),
        }
    )


def _signed(state: AppState, record: TenantRecord, request: SignedRequest) -> SignedRequest:
    """Return the signed delivery.

    Raises:
        Refusal: 409, the operator does not have what signs for this source; 422, the scheme cannot
            sign this body.
    """
    settings = source_settings(record)
    _require_private(settings.scheme)
    secret = _secret(state, record)
    try:
        return sign(settings.scheme, secret, request, settings.options)
    except SignatureError as error:
        if error.reason == "bad_secret":
            detail = f"the source's secret {error}: sign with a --secret-file"
            raise Refusal(409, "cannot-sign", detail) from None
        raise invalid("body_base64", str(error)) from None


def _require_private(name: str) -> None:
    """Check that this version knows the scheme, and that a source's secret can sign for it."""
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
