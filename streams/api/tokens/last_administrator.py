"""Ends the token of an administrator only where another one is left, on whichever operator.

Two operators that are asked at once know of each other's end: the writes of all operators that
could end the last administrator come one after the other, each after what came before it is read.
"""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import suppress

from streams.access.authentication import Authentication
from streams.access.token_records import KIND, PARTITION, TokenGrant
from streams.api.operator_state import SETTINGS_WRITER, AppState, tenant_record
from streams.api.refusal import Refusal
from streams.errors import KafkaUnavailable, PoisonRecord
from streams.kafka.fenced_write import Unsettled
from streams.serde.codec import TENANT
from streams.serde.keys import tenant_key

_MOST_TRIES = 5


def is_last(access: Authentication, grant: TokenGrant, now: int) -> bool:
    """Return whether nobody could make tokens of any kind without this one."""
    known = [each.id for each in access.book.administrators(now)]
    return known == [grant.id] and not access.takes_bootstrap


def matters(access: Authentication, grant: TokenGrant, now: int) -> bool:
    """Return whether a token is one of those of which one must be left."""
    known = access.book.administrators(now)
    return not access.takes_bootstrap and any(each.id == grant.id for each in known)


async def end_beside_another(
    state: AppState, access: Authentication, ended: TokenGrant, now: int
) -> None:
    """Write the end of a token of an administrator, unless it is the last one.

    Raises:
        Refusal: 409, it is the last one; 503, the read model is late: call again.
        KafkaUnavailable: it was not acknowledged: call again.
    """
    key, record = tenant_key(*ended.key), ended.record(now)
    for _ in range(_MOST_TRIES):
        write = await state.fenced.open()
        await learn(state, access)
        known = access.book.grant(ended.id)
        if known is None or known.revoked_at is not None:
            return
        if is_last(access, known, now):
            raise last_administrator()
        entry = state.entry(ended.id, before=known.record(now), after=record)
        told = await state.chained(SETTINGS_WRITER, entry)
        with suppress(Unsettled):
            await write.commit(tenant_record(ended.key, record, PARTITION), *told)
            access.book.apply(key, TENANT.encode(record))
            return
    raise KafkaUnavailable("other writers came before this one again and again")


def last_administrator() -> Refusal:
    """Return the refusal to end the last token of an administrator."""
    told = "this is the last token with all permissions for all tenants: make another one first"
    return Refusal(409, "last-administrator", told)


async def learn(state: AppState, access: Authentication) -> None:
    """Take in all tokens that are on the topic now, whoever asks.

    Raises:
        Refusal: 503, the read model is late: call again.
    """
    await state.read_barrier(("tenants", PARTITION))
    for token_id, value in await asyncio.to_thread(state.database.read, _records):
        with suppress(PoisonRecord):  # it opens nothing, so it is no administrator's
            access.book.apply(tenant_key("", KIND, token_id), value)


def _records(connection: sqlite3.Connection) -> list[tuple[str, bytes]]:
    look = "SELECT id, record FROM tenants WHERE tenant_id = '' AND kind = ?"
    return connection.execute(look, (KIND,)).fetchall()
