"""Marks dead letters about which nothing is left to do, so that lists leave them out.

Nothing is lost: a discarded letter keeps all that it says, and can still be shown and replayed.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace

from streams.api.dead_letters import letters
from streams.api.dead_letters.producer import NotTaken
from streams.api.operator_state import AppState
from streams.api.refusal import Refusal
from streams.errors import KafkaUnavailable
from streams.http.moments import rfc3339
from streams.process.wall_clock import wall_ms
from streams.serde.records import DeadLetter
from streams.topology.model import Topology

_ANSWERED = "its caller was told of the refusal"
_ANSWER_WAITS_SECONDS = 2.0


async def discarded(state: AppState, id_: str, note: str) -> DeadLetter | None:
    """Mark a letter, unless it is marked, and return it; None if there is none.

    Raises:
        Refusal: 409, it is on its way to its stage; 503, it is unknown whether it was marked: call
            again.
        KafkaUnavailable: no transaction can be opened.
        NotTaken: the broker will never take the letter.
    """
    at = wall_ms()

    async def attempt(_: bool) -> DeadLetter | None:
        transaction = await state.records.open()
        for kept in await letters.current(state, [id_]):
            if kept.letter.discarded_at is not None:
                return kept.letter
            _require_settled(kept.letter, state.topology, at)
            marked = replace(
                kept.letter,
                discarded_at=at,
                discarded_by=state.principal.id,
                discard_note=note,
            )
            await transaction.commit([letters.rewritten(marked, kept.partition)])
            await letters.shown(state, [kept.partition])
            return marked
        return None

    return await letters.settled(state, attempt)


def _require_settled(letter: DeadLetter, topology: Topology, now: int) -> None:
    """Refuse to change a letter that its stage is about to write again, as it was sent in.

    A stage that has not answered for as long as its input keeps records never will.
    """
    waits = letter.replayed_at is not None and letter.replay_outcome is None
    if letter.kind != "record" or not waits or letter.stage not in topology.stages:
        return
    topic = topology.topics.get(topology.letter_input(letter.stage) or "")
    if topic is None:
        return
    until = (letter.replayed_at or 0) + (topic.retention_ms or 0) + topic.segment_ms
    if now < until:
        raise Refusal(
            409,
            "replay-under-way",
            f"{letter.id} was sent in again, and {letter.stage} has not "
            "answered yet: discard it once `replay_outcome` says what became of it, or from "
            f"{rfc3339(until)} on, when {topic.name} no longer has it",
        )


async def answered(state: AppState, refusal: DeadLetter) -> None:
    """Mark the letter of a refused command whose caller is being told of the refusal.

    If it cannot be marked in time, it stays in the lists.
    """
    if refusal.discarded_at is None:
        with suppress(Refusal, KafkaUnavailable, NotTaken, TimeoutError):
            async with asyncio.timeout(_ANSWER_WAITS_SECONDS):
                await discarded(state, refusal.id, _ANSWERED)
