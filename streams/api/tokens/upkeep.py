"""What an operator does for tokens beside its calls: it keeps their last uses, forgets those that
ended long ago, and checks that there is an administrator."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from streams.access.authentication import Authentication
from streams.access.token_records import KIND, PARTITION, USE, use_record
from streams.api.operator_state import AppState
from streams.errors import ConfigError, KafkaUnavailable
from streams.process.wall_clock import wall_ms
from streams.serde.codec import TENANT
from streams.serde.keys import tenant_key

log = structlog.get_logger(__name__)

EVERY_SECONDS = 60.0
_MOST_FORGOTTEN = 100
_LOOKS_EVERY_SECONDS = 0.2


async def keep_tokens(state: AppState, access: Authentication) -> None:
    """Write last uses and forget old tokens once a minute, until this task is cancelled."""
    while True:
        await asyncio.sleep(EVERY_SECONDS)
        try:
            await write_uses(state, access, round(EVERY_SECONDS * 1000))
            await forget_ended(state, access, wall_ms())
        except KafkaUnavailable as error:
            log.warning("the records of tokens are kept up later", error=str(error))


async def write_uses(state: AppState, access: Authentication, since_ms: int = 1) -> None:
    """Write the uses of tokens that are newer by `since_ms` than what is kept of them.

    Raises:
        KafkaUnavailable: one was not acknowledged.
    """
    for token_id, at in access.unwritten_uses(since_ms).items():
        record = use_record(token_id, at)
        key = (record.tenant_id, record.kind, record.id)
        await state.set_tenant(key, record, PARTITION)
        access.book.apply(tenant_key(*key), TENANT.encode(record))


async def forget_ended(state: AppState, access: Authentication, now: int) -> None:
    """Delete the records of tokens that ended long ago; every operator may do so.

    Raises:
        KafkaUnavailable: one was not acknowledged.
    """
    for token_id in access.book.forgettable(now)[:_MOST_FORGOTTEN]:
        for kind in (USE, KIND):  # the token last, so that its use never stays alone
            await state.set_tenant(("", kind, token_id), None, PARTITION)
            access.book.apply(tenant_key("", kind, token_id), None)


async def require_administrator(
    access: Authentication, is_known: Callable[[], bool], failed: Callable[[Exception], None]
) -> None:
    """End the process if nobody can administer it; return once the tokens are known."""
    while not is_known():  # noqa: ASYNC110  other threads bring it about
        await asyncio.sleep(_LOOKS_EVERY_SECONDS)
    if not access.takes_bootstrap and not access.book.administrators(wall_ms()):
        failed(
            ConfigError(
                "TIDEGATE_TAKE_ADMIN_TOKEN is false, and no token has all permissions for all "
                "tenants: set it to true, make one with `tidegate tokens create NAME --role "
                "admin`, then set it to false again"
            )
        )
