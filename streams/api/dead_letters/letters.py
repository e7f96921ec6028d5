"""Dead letters as they are now, and how they are written again."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace

import orjson

from streams import dead_letter
from streams.api.dead_letters import to_replay
from streams.api.dead_letters.to_replay import StoredLetter
from streams.api.operator_state import AppState
from streams.api.refusal import Refusal
from streams.http.moments import rfc3339
from streams.kafka.fenced_write import OutgoingRecord
from streams.serde.records import AuditEntry, DeadLetter


async def current(state: AppState, ids: Collection[str]) -> list[StoredLetter]:
    """Return the letters as they are at this call.

    Raises:
        Refusal: 503, the read model is late: call again.
    """

    def found(connection: sqlite3.Connection) -> list[StoredLetter]:
        return to_replay.letters(connection, ids)

    await state.read_barrier(*{("dlq", each.partition) for each in await state.query(found)})
    return await state.query(found)


async def marked(
    state: AppState, id_: str, mark: Callable[[DeadLetter], DeadLetter], verb: str, note: str
) -> DeadLetter | None:
    """Write a letter as `mark` makes it, unless that changes nothing; return it.

    None: there is no such letter. The audit calls the change `verb`.

    Raises:
        Refusal: `mark` refuses; 503, the read model is late: call again.
        RecordTooLarge: the broker will never take the letter.
        KafkaUnavailable: it was not acknowledged; it may still be written.
    """
    for kept in await current(state, [id_]):
        changed = mark(kept.letter)
        if changed != kept.letter:
            states = {"before": _marks(kept.letter), "after": _marks(changed)}
            tenant_id = changed.tenant_id or ""
            entry = state.entry(id_, tenant_id, note=note, verb=verb, **states)
            await rewrite(state, replace(kept, letter=changed), entry)
        return changed
    return None


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


def _marks(letter: DeadLetter) -> str:
    """Return what people have decided about a letter, as the audit keeps it."""
    times = {
        "manual_at": letter.manual_at,
        "done_at": letter.done_at,
        "discarded_at": letter.discarded_at,
    }
    people = {
        "manual_by": letter.manual_by,
        "assignee": letter.assignee,
        "done_by": letter.done_by,
        "discarded_by": letter.discarded_by,
    }
    found = {name: rfc3339(at) for name, at in times.items()} | people
    return orjson.dumps({name: each for name, each in found.items() if each is not None}).decode()
