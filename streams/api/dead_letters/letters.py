"""Dead letters as they are now, and how they are written again."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from contextlib import suppress

from streams import dead_letter
from streams.api.dead_letters import to_replay
from streams.api.dead_letters.to_replay import StoredLetter
from streams.api.operator_state import AppState
from streams.api.refusal import Refusal
from streams.kafka.fenced_write import OutgoingRecord
from streams.serde.records import AuditEntry


async def current(state: AppState, ids: Collection[str]) -> list[StoredLetter]:
    """Return the letters as they are at this call.

    Raises:
        Refusal: 503, the read model is late: call again.
    """

    def found(connection: sqlite3.Connection) -> list[StoredLetter]:
        return to_replay.letters(connection, ids)

    await state.read_barrier(*{("dlq", each.partition) for each in await state.query(found)})
    return await state.query(found)


async def rewrite(state: AppState, kept: StoredLetter, entry: AuditEntry | None) -> None:
    """Replace a letter in its partition; return once the read model shows it, or is late.

    Raises:
        RecordTooLarge: the broker will never take it.
        KafkaUnavailable: it was not acknowledged; it may still be written.
    """
    key, value = dead_letter.encoded(kept.letter)
    await state.audited(entry, OutgoingRecord(dead_letter.TOPIC, key, value, kept.partition))
    with suppress(Refusal):
        await state.read_barrier(("dlq", kept.partition))
