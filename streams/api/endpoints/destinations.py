"""Checks where outgoing requests are to go, and sets up the endpoint that callbacks need."""

from __future__ import annotations

from streams.api.operator_state import AppState
from streams.api.refusal import Refusal, invalid
from streams.api.tenants.writes import changing, standing_endpoint, written
from streams.delivery.egress.guard import check_destination, parse_target
from streams.delivery.message.signing import new_secret
from streams.errors import EgressDenied
from streams.process.wall_clock import wall_ms
from streams.tenants.endpoints import CALLBACKS, EndpointSettings, endpoint_key, endpoint_record

_SETTINGS = {
    "address": "TIDEGATE_EGRESS_ALLOW_NETWORKS allows further networks",
    "scheme": "TIDEGATE_EGRESS_ALLOW_HTTP allows http",
    "port": "TIDEGATE_EGRESS_DENY_PORTS adds to the denied ports",
    "own_host": "TIDEGATE_EGRESS_OWN_HOSTS names Tidegate's own",
}
"""The settings of the operator and the delivery stage that a denial's remedy may be, by reason."""


async def check_target(state: AppState, field: str, url: str) -> None:
    """Check a URL and the addresses of its name, which may have none yet.

    Raises:
        Refusal: 422, no request is sent there; names the address and the setting.
    """
    try:
        await check_destination(url, state.egress)
    except EgressDenied as error:
        if error.reason != "dns":
            raise _denied(field, error) from None


async def ready_for_callbacks(state: AppState, tenant_id: str, url: str) -> None:
    """Check a job's `callback_url`, and see to it that the tenant has what signs callbacks.

    The name is looked up when it is dialled: a slow name server must not slow submissions.

    Raises:
        Refusal: 422, no request is sent there; 409, the tenant was erased.
    """
    try:
        parse_target(url, state.egress)
    except EgressDenied as error:
        raise _denied("callback_url", error) from None
    if not await _has_callbacks(state, tenant_id):
        async with changing(state, tenant_id):
            await set_up_callbacks(state, tenant_id)


async def set_up_callbacks(state: AppState, tenant_id: str) -> None:
    """Create the endpoint `callbacks` unless the tenant has it; call it within `changing`.

    Its secret is made here and shown to nobody: a rotation makes one that is shown.
    """
    if await _has_callbacks(state, tenant_id):
        return
    now = wall_ms()
    key = endpoint_key(state.vault, tenant_id, CALLBACKS, new_secret().encode())
    settings = EndpointSettings(created_at=now)
    record = endpoint_record(state.vault, tenant_id, CALLBACKS, settings, (key,), {}, now)
    await written(state, record)


async def _has_callbacks(state: AppState, tenant_id: str) -> bool:
    return await standing_endpoint(state, tenant_id, CALLBACKS) is not None


def _denied(field: str, error: EgressDenied) -> Refusal:
    setting = _SETTINGS.get(error.reason)
    return invalid(field, f"{error} ({setting})" if setting else str(error))
