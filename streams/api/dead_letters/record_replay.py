"""Sends dead records in again, each to its own stage and partition, once unless `again` is given.

One transaction writes the letter to `dlq`, marked with when, by whom and why it was sent in, and to
the input that its stage alone reads. The stage answers in the letter (`replay_outcome`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from streams import dead_letter
from streams.api.dead_letters import letters
from streams.api.dead_letters.eligibility import Unfit, unfit
from streams.api.dead_letters.producer import NotTaken, Outgoing
from streams.api.operator_state import AppState
from streams.dead_letter import REPLAY_HEADER
from streams.process.wall_clock import wall_ms
from streams.serde.ids import new_id
from streams.serde.records import DeadLetter
from streams.topology.model import Topology


@dataclass(frozen=True, slots=True)
class Mark:
    """When (ms), by whom and why records are sent in; `again` includes those sent in before.

    `id` is another one for each call: time and note do not tell two operators apart that are asked
    at once, and the one that was overtaken would take the mark for its own.
    """

    at: int
    by: str
    note: str
    again: bool = False
    id: bytes = field(default_factory=lambda: new_id("rpl").encode())


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
    mark = Mark(wall_ms(), state.principal.id, note, again)
    found = await letters.settled(state, lambda retried: _attempt(state, ids, mark, retried))
    await letters.shown(state, {letter.partition or 0 for letter in found.sent})
    return found


async def _attempt(state: AppState, ids: Collection[str], mark: Mark, retried: bool) -> Replayed:
    transaction = await state.records.open()
    sent, left_out, outgoing = [], [], []
    for kept in await letters.current(state, ids):
        reason = unfit(kept.letter, state.topology, mark.again)
        if retried and _is_marked(kept.letter, mark):
            sent.append(kept.letter)  # An earlier attempt, whose end was unknown, sent it.
        elif reason is not None:
            left_out.append((kept.letter.id, reason))
        else:
            marked = _marked(kept.letter, mark)
            sent.append(marked)
            outgoing += [
                _returning(marked, state.topology),
                letters.rewritten(marked, kept.partition),
            ]
    if outgoing:
        await transaction.commit(outgoing)
    return Replayed(tuple(sent), tuple(left_out))


def _is_marked(letter: DeadLetter, mark: Mark) -> bool:
    return letter.headers.get(REPLAY_HEADER) == mark.id


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


def _returning(letter: DeadLetter, topology: Topology) -> Outgoing:
    key, value, headers = dead_letter.returning(letter)
    topic = topology.letter_input(letter.stage) or ""
    return Outgoing(topic, letter.partition or 0, key, value, headers)


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
