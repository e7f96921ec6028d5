"""Sends dead records in again, each to its own stage and partition.

One record brings the letter back: marked with when, by whom and why it was sent in, to the input
that its stage alone reads. It is written in one transaction with its entry of the audit. The stage
answers in the letter (`replay_outcome`), in the transaction that takes the record. So nothing is
half done, and a letter that is sent in twice does no harm: stages take each record of their inputs
at least once anyway.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Collection
from dataclasses import dataclass, replace

import orjson

from streams import dead_letter
from streams.api.dead_letters import letters
from streams.api.dead_letters import table as dead_letters
from streams.api.dead_letters.eligibility import Unfit, unfit
from streams.api.operator_state import AppState
from streams.dead_letter import REPLAY_HEADER
from streams.errors import RecordTooLarge
from streams.kafka.fenced_write import OutgoingRecord
from streams.process.wall_clock import wall_ms
from streams.serde.ids import new_id
from streams.serde.records import AuditEntry, DeadLetter

_AT_ONCE = 200
"""So many letters are in memory at a time."""


@dataclass(frozen=True, slots=True)
class Mark:
    """When (milliseconds), by whom and why records are sent in; `again` includes those sent before.

    `id` is another one for each call, unless it is repeated, so that a call knows the answers to
    it.
    """

    at: int
    note: str
    by: str
    again: bool
    id: bytes

    def marks(self, letter: DeadLetter) -> bool:
        """Return whether a letter was sent in by this call."""
        return letter.headers.get(REPLAY_HEADER) == self.id


@dataclass(frozen=True, slots=True)
class Replayed:
    """The letters that were sent in again, as they are now, and those that were left out.

    `answered` is whether the stages of all of them have said what became of them.
    """

    sent: tuple[DeadLetter, ...]
    left_out: tuple[tuple[str, Unfit], ...]
    answered: bool


async def replay_records(
    state: AppState,
    ids: Collection[str],
    note: str,
    *,
    again: bool = False,
    mark_id: bytes | None = None,
) -> Replayed:
    """Send records in again, in the order of these ids, and wait for their stages' answers.

    A letter that has the mark `mark_id` was sent in by an earlier call: it is not sent once more,
    and counts as sent.

    Raises:
        Refusal: 503, the read model is late: call again.
        KafkaUnavailable: a record was not acknowledged: call again.
    """
    mark_id = mark_id or new_id("rpl").encode()
    mark, asked = Mark(wall_ms(), note, state.principal.id, again, mark_id), list(ids)
    sent, left_out = list[DeadLetter](), list[tuple[str, Unfit]]()
    for start in range(0, len(asked), _AT_ONCE):
        for id_, result in await _sent_in(state, asked[start : start + _AT_ONCE], mark):
            left_out.append((id_, result)) if isinstance(result, Unfit) else sent.append(result)
    answers = await asyncio.gather(*(_answer(state, letter.id, mark) for letter in sent))
    shown = tuple(answer or letter for answer, letter in zip(answers, sent, strict=True))
    return Replayed(shown, tuple(left_out), None not in answers)


async def _sent_in(
    state: AppState, ids: Collection[str], mark: Mark
) -> list[tuple[str, DeadLetter | Unfit]]:
    kept = [each.letter for each in await letters.current(state, ids)]
    # The producer gets them in this order, which a partition keeps.
    results = await asyncio.gather(*(_send(state, letter, mark) for letter in kept))
    return [(letter.id, result) for letter, result in zip(kept, results, strict=True)]


async def _send(state: AppState, letter: DeadLetter, mark: Mark) -> DeadLetter | Unfit:
    if mark.marks(letter):
        return letter
    reason = unfit(letter, state.topology, mark.again)
    if reason is not None:
        return reason
    marked = _marked(letter, mark)
    key, value, headers = dead_letter.returning(marked)
    topic, partition = state.topology.letter_input(letter.stage) or "", letter.partition or 0
    back = OutgoingRecord(topic, key, value, partition, headers)
    try:
        await state.audited(_entry(state, marked, topic), back)
    except RecordTooLarge as error:
        return Unfit("not-taken", str(error))
    return marked


def _entry(state: AppState, marked: DeadLetter, topic: str) -> AuditEntry | None:
    """Return the entry of a record that is sent in again, whatever the call is that does so."""
    after, verb = orjson.dumps({"sent_to": topic}).decode(), "dead_letter.replay"
    return state.entry(marked.id, marked.tenant_id, after=after, note=marked.note, verb=verb)


async def _answer(state: AppState, id_: str, mark: Mark) -> DeadLetter | None:
    """Return the letter once its stage has answered this call; None if the stage is late."""

    def look(connection: sqlite3.Connection) -> DeadLetter | None:
        found = dead_letters.dead_letter(connection, id_)
        return found if found is not None and mark.marks(found) else None

    return await state.wait_for(("dead_letters", (id_,)), look)


def _marked(letter: DeadLetter, mark: Mark) -> DeadLetter:
    headers = {**letter.headers, REPLAY_HEADER: mark.id}
    return replace(
        letter,
        replayed_at=mark.at,
        replayed_by=mark.by,
        note=mark.note,
        headers=headers,
        replay_outcome=None,
    )
