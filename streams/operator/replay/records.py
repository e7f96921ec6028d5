"""Sends dead records in again, each to its own partition, once unless `again` is given.

One transaction writes the record and its letter, which is marked with when, by whom and why it was
sent in. The operator opens the transaction, then reads all that any operator committed before, and
only then checks the letters.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import structlog

from streams import dead_letter
from streams.operator.http.app_state import SUBMITTED_BY, AppState
from streams.operator.http.refusal import Refusal
from streams.operator.replay.eligibility import Unfit, unfit
from streams.operator.replay.producer import NotTaken, Outgoing, Unsettled
from streams.operator.resources import dead_records
from streams.operator.resources.dead_records import StoredLetter
from streams.process.wall_clock import wall_ms
from streams.serde.records import DeadLetter
from streams.topology.model import Topology

log = structlog.get_logger(__name__)

REPLAY_HEADER = "tidegate-replay"
"""The header that names the dead letter from which a record was made."""
_TRIES = 3


@dataclass(frozen=True, slots=True)
class Mark:
    """When (milliseconds) and why records are sent in; `again` includes those sent in before."""

    at: int
    note: str
    again: bool = False


@dataclass(frozen=True, slots=True)
class Replayed:
    """The letters that were sent in again, as they are now, and those that were left out."""

    sent: tuple[DeadLetter, ...]
    left_out: tuple[tuple[str, Unfit], ...]


async def replay_records(
    state: AppState, ids: Collection[str], note: str, *, again: bool = False
) -> Replayed:
    """Send records in again, in the order of their ids, all in one transaction.

    Raises:
        Refusal: 503, it is unknown whether they were sent, or the read model is late: call again.
        KafkaUnavailable: no transaction can be opened.
        NotTaken: the broker will never take one of them; none was sent.
    """
    mark = Mark(wall_ms(), note, again)
    async with state.records.turn:
        for attempt in range(_TRIES):
            try:
                found = await _attempt(state, ids, mark, retried=attempt > 0)
            except Unsettled as error:
                log.warning("replay of records is tried again", error=str(error))
                continue
            await _shown(state, found)
            return found
    raise Refusal(503, "replay-unsettled", "Kafka did not say whether the records were sent in "
                  "again, or another operator sends some in: send the call again")  # fmt: skip


async def _attempt(state: AppState, ids: Collection[str], mark: Mark, *, retried: bool) -> Replayed:
    transaction = await state.records.open()
    letters = await _current(state, ids)
    sent, left_out, outgoing = [], [], []
    for kept in letters:
        reason = unfit(kept.letter, state.topology, mark.again)
        if retried and _is_marked(kept.letter, mark):
            sent.append(kept.letter)  # An earlier attempt, whose end was unknown, sent it.
        elif reason is not None:
            left_out.append((kept.letter.id, reason))
        else:
            marked = _marked(kept.letter, mark)
            sent.append(marked)
            outgoing += [_record(kept.letter, state.topology), _letter(marked, kept.partition)]
    if outgoing:
        await transaction.commit(outgoing)
    return Replayed(tuple(sent), tuple(left_out))


async def _current(state: AppState, ids: Collection[str]) -> list[StoredLetter]:
    """Return the letters as they are now that the transaction is open."""

    def found(connection: sqlite3.Connection) -> list[StoredLetter]:
        return dead_records.letters(connection, ids)

    await state.read_barrier(*{("dlq", each.partition) for each in await state.query(found)})
    return await state.query(found)


async def _shown(state: AppState, found: Replayed) -> None:
    # The records are sent already, even if the read model is late.
    with suppress(Refusal):
        await state.read_barrier(*{("dlq", letter.partition or 0) for letter in found.sent})


def _is_marked(letter: DeadLetter, mark: Mark) -> bool:
    return (letter.replayed_at, letter.note) == (mark.at, mark.note)


def _marked(letter: DeadLetter, mark: Mark) -> DeadLetter:
    return replace(letter, replayed_at=mark.at, replayed_by=SUBMITTED_BY, note=mark.note)


def _letter(marked: DeadLetter, partition: int) -> Outgoing:
    return Outgoing(dead_letter.TOPIC, partition, *dead_letter.encoded(marked))


def _record(letter: DeadLetter, topology: Topology) -> Outgoing:
    """Return the record as it was, with a header that names its letter.

    A letter of an earlier version has no time, so its record gets the time of the replay.
    """
    topic = letter.topic or ""
    headers = {name: value for name, value in letter.headers.items() if name != REPLAY_HEADER}
    if letter.traceparent and not headers:
        headers["traceparent"] = letter.traceparent.encode()
    timed = topology.topics[topic].timestamp == "create" and (letter.timestamp or 0) > 0
    return Outgoing(
        topic,
        letter.partition or 0,
        letter.key,
        letter.value,
        (*headers.items(), (REPLAY_HEADER, letter.id.encode())),
        letter.timestamp if timed else None,
    )


async def replay_most(state: AppState, ids: Sequence[str], note: str) -> Replayed:
    """Send records in again; if the broker will never take one of them, send all the others.

    Raises the same errors as `replay_records`, except `NotTaken`.
    """
    try:
        return await replay_records(state, ids, note)
    except NotTaken as error:
        if len(ids) == 1:
            return Replayed((), ((ids[0], Unfit("not-taken", str(error))),))
    middle = len(ids) // 2
    first = await replay_most(state, ids[:middle], note)
    second = await replay_most(state, ids[middle:], note)
    return Replayed(first.sent + second.sent, first.left_out + second.left_out)
