"""What an operator does for tokens beside its calls: it keeps their last uses, and checks that
there is an administrator."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from streams.access.authentication import Authentication
from streams.access.token_records import PARTITION, use_record
from streams.api.operator_state import AppState
from streams.errors import ConfigError, KafkaUnavailable
from streams.process.wall_clock import wall_ms
from streams.serde.codec import TENANT
from streams.serde.keys import tenant_key

log = structlog.get_logger(__name__)

USES_EVERY_SECONDS = 60.0
_LOOKS_EVERY_SECONDS = 0.2


async def keep_uses(state: AppState, access: Authentication) -> None:
    """Write the last uses of tokens once a minute until this task is cancelled."""
    while True:
        await asyncio.sleep(USES_EVERY_SECONDS)
        await write_uses(state, access, round(USES_EVERY_SECONDS * 1000))


async def write_uses(state: AppState, access: Authentication, since_ms: int = 1) -> None:
    """Write the uses of tokens that are newer by `since_ms` than what is kept of them."""
    for token_id, at in access.unwritten_uses(since_ms).items():
        record = use_record(token_id, at)
        key = (record.tenant_id, record.kind, record.id)
        try:
            await state.set_tenant(key, record, PARTITION)
        except KafkaUnavailable as error:
            log.warning("the last use of tokens is not kept", error=str(error))
            return
        access.book.apply(tenant_key(*key), TENANT.encode(record))


async def require_administrator(
    access: Authentication, is_known: Callable[[], bool], failed: Callable[[Exception], None]
) -> None:
    """End the process if nobody can administer it; return once the tokens are known."""
    while not is_known():  # noqa: ASYNC110  other threads bring it about
        await asyncio.sleep(_LOOKS_EVERY_SECONDS)
    if not access.takes_bootstrap and not access.book.administrators(wall_ms()):
        failed(
            ConfigError(
                "TIDEGATE_TAKE_ADMIN_TOKEN is false, and no token has the permission admin for "
                "all tenants: set it to true, make one with `tidegate tokens create NAME --role "
                "admin`, then set it to false again"
            )
        )
