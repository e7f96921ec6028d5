"""The transaction that writes dead letters again, after it has read them as they are.

The operator opens the transaction, then reads all that any operator committed before, and only then
judges the letters. So a letter that two operators change at once has the changes of both.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from typing import TypeVar

import structlog

from streams import dead_letter
from streams.api.dead_letters import to_replay as letters_to_replay
from streams.api.dead_letters.producer import Outgoing, Unsettled
from streams.api.dead_letters.to_replay import StoredLetter
from streams.api.operator_state import AppState
from streams.api.refusal import Refusal
from streams.serde.records import DeadLetter

T = TypeVar("T")
log = structlog.get_logger(__name__)

_TRIES = 3


async def settled(state: AppState, attempt: Callable[[bool], Awaitable[T]]) -> T:
    """Return the result of an attempt whose transaction has a known end.

    `attempt` opens a transaction; its argument is whether an earlier attempt, of which the end was
    unknown when it ended, may have committed.

    Raises:
        Refusal: 503, the end of no attempt is known: send the call again.
    """
    async with state.records.turn:
        for number in range(_TRIES):
            try:
                return await attempt(number > 0)
            except Unsettled as error:
                log.warning("transaction on dead letters is tried again", error=str(error))
    raise Refusal(
        503,
        "replay-unsettled",
        "Kafka did not say whether the dead letters were "
        "changed, or another operator changes some: send the call again",
    )


async def current(state: AppState, ids: Collection[str]) -> list[StoredLetter]:
    """Return the letters as they are now that the transaction is open."""

    def found(connection: sqlite3.Connection) -> list[StoredLetter]:
        return letters_to_replay.letters(connection, ids)

    await state.read_barrier(*{("dlq", each.partition) for each in await state.query(found)})
    return await state.query(found)


async def shown(state: AppState, partitions: Collection[int]) -> None:
    """Wait until the read model shows what was written to these partitions of `dlq`.

    If it is late, return: the letters are durable all the same.
    """
    with suppress(Refusal):
        await state.read_barrier(*{("dlq", each) for each in partitions})


def rewritten(letter: DeadLetter, partition: int) -> Outgoing:
    """Return the record that replaces a letter in its partition."""
    return Outgoing(dead_letter.TOPIC, partition, *dead_letter.encoded(letter))
