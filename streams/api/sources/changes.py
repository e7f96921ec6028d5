"""Changes of a tenant's sources; each is a record on `tenants`."""

from __future__ import annotations

from dataclasses import replace

from streams.access.permissions import SECRETS
from streams.api.endpoints.destinations import check_target, set_up_callbacks
from streams.api.operator_state import AppState
from streams.api.refusal import Refusal, invalid, unknown
from streams.api.remedy import put
from streams.api.rights import require_may_refer, require_permission
from streams.api.rows.json_values import Json
from streams.api.sources.source_request import RotateRequest, SourceRequest
from streams.api.sources.table import source_json
from streams.api.tenants.guards import known_tenant
from streams.api.tenants.tags import newest
from streams.api.tenants.writes import changing, with_newest, written
from streams.process.wall_clock import wall_ms
from streams.serde.records import SigningKey, TenantRecord
from streams.tenants.settings import OWN_SOURCE, source_record, source_settings
from streams.tenants.source_keys import holds, signing_key


async def put_source(state: AppState, tenant_id: str, name: str, wanted: SourceRequest) -> Json:
    """Create or replace a source and its signing secret; see `SourceRequest`.

    Raises:
        Refusal: 404, the tenant is unknown; 409, it was erased; 422, the name is Tidegate's own,
            the secret is missing or of no use, or no request is sent to the callback's URL.
    """
    if name == OWN_SOURCE:
        raise invalid("source", f"{name} is the source of Tidegate's own messages: choose another")
    if wanted.has_secret:
        require_permission(state.principal, SECRETS)
        require_may_refer(state.principal, wanted.secret_ref)
    secrets = [wanted.new_secret(wanted.scheme)] if wanted.has_secret else []
    if wanted.callback_url is not None:
        await check_target(state, "callback_url", wanted.callback_url)
    async with changing(state, tenant_id):
        await known_tenant(state, tenant_id)
        settings, now = wanted.settings(), wall_ms()
        record = source_record(state.vault, tenant_id, name, settings, secrets, now)
        if not secrets:
            record = replace(record, keys=await _kept_keys(state, record, settings.scheme, now))
        if settings.callback_url is not None:
            await set_up_callbacks(state, tenant_id)
        return await _set(state, record)


async def rotate(state: AppState, tenant_id: str, name: str, wanted: RotateRequest) -> Json:
    """Set a source's new secret; the old one verifies until the overlap is over.

    Raises:
        Refusal: 403, the caller may name no reference; 404, there is no such source; 409, it is
            disabled, or too many secrets are in use.
    """
    require_may_refer(state.principal, wanted.secret_ref)
    async with changing(state, tenant_id):
        record = await known_source(state, tenant_id, name)
        return await _set(state, _rotated(state, record, wanted, wall_ms()))


async def disable(state: AppState, tenant_id: str, name: str) -> Json:
    """Disable a source and delete its secrets; a PUT sets it up again.

    Raises:
        Refusal: 404, there is no such source.
    """
    async with changing(state, tenant_id):
        record = await known_source(state, tenant_id, name)
        gone = replace(record, disabled=True, secrets=(), keys=(), updated_at=wall_ms())
        return await _set(state, gone)


async def show(state: AppState, tenant_id: str, name: str) -> Json:
    """Return a source, how many secrets it has, and until when the old ones verify."""
    return source_json(await known_source(state, tenant_id, name), wall_ms())


async def known_source(state: AppState, tenant_id: str, name: str) -> TenantRecord:
    """Return the source that a call names.

    Raises:
        Refusal: 404, there is none.
    """
    record = await newest(state, (tenant_id, "source", name))
    if record is None:
        create = put("tenants", tenant_id, "sources", name)
        raise unknown("source", name, f"create it with {create}", create)
    return record


def require_secret(record: TenantRecord) -> None:
    """Check that a source has a secret.

    Raises:
        Refusal: 409, it is disabled.
    """
    if record.disabled:
        enable = put("tenants", record.tenant_id, "sources", record.id)
        detail = f"a disabled source has no secret: enable it with {enable}"
        raise Refusal(409, "source-disabled", detail, remedy=enable)


async def _kept_keys(
    state: AppState, record: TenantRecord, scheme: str, now: int
) -> tuple[SigningKey, ...]:
    """Return the keys under which a source verifies now, for its new settings.

    Raises:
        Refusal: 422, none fits: the source is new, disabled, or of another scheme.
    """
    before = await newest(state, (record.tenant_id, "source", record.id))
    if before is None or before.disabled or source_settings(before).scheme != scheme:
        only = "only a live source of the same scheme keeps its own"
        raise invalid("body", f"give exactly one of secret and secret_ref: {only}")
    return tuple(key for key in before.keys if holds(key, now))


def _rotated(
    state: AppState, record: TenantRecord, wanted: RotateRequest, now: int
) -> TenantRecord:
    require_secret(record)
    secret = wanted.new_secret(source_settings(record).scheme)
    newest = signing_key(state.vault, record.tenant_id, record.id, secret)
    keys = with_newest(record.keys, newest, wanted.overlap_seconds, now)
    return replace(record, secrets=(), keys=keys, updated_at=now)


async def _set(state: AppState, record: TenantRecord) -> Json:
    return source_json(await written(state, record), wall_ms())
