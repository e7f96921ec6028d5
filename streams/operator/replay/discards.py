"""Marks dead letters about which nothing is left to do, so that lists leave them out.

Nothing is lost: a discarded letter keeps all that it says, and can still be shown and replayed.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace

from streams.errors import KafkaUnavailable
from streams.operator.http.app_state import SUBMITTED_BY, AppState
from streams.operator.http.refusal import Refusal
from streams.operator.replay import letters
from streams.operator.replay.producer import NotTaken
from streams.process.wall_clock import wall_ms
from streams.serde.records import DeadLetter

_ANSWERED = "its caller was told of the refusal"
_ANSWER_WAITS_SECONDS = 2.0


async def discarded(state: AppState, id_: str, note: str) -> DeadLetter | None:
    """Mark a letter, unless it is marked, and return it; None if there is none.

    Raises:
        Refusal: 503, it is unknown whether it was marked: call again.
        KafkaUnavailable: no transaction can be opened.
        NotTaken: the broker will never take the letter.
    """
    at = wall_ms()

    async def attempt(_: bool) -> DeadLetter | None:
        transaction = await state.records.open()
        for kept in await letters.current(state, [id_]):
            if kept.letter.discarded_at is not None:
                return kept.letter
            marked = replace(
                kept.letter, discarded_at=at, discarded_by=SUBMITTED_BY, discard_note=note
            )
            await transaction.commit([letters.rewritten(marked, kept.partition)])
            await letters.shown(state, [kept.partition])
            return marked
        return None

    return await letters.settled(state, attempt)


async def answered(state: AppState, refusal: DeadLetter) -> None:
    """Mark the letter of a refused command whose caller is being told of the refusal.

    If it cannot be marked in time, it stays in the lists.
    """
    if refusal.discarded_at is None:
        with suppress(Refusal, KafkaUnavailable, NotTaken, TimeoutError):
            async with asyncio.timeout(_ANSWER_WAITS_SECONDS):
                await discarded(state, refusal.id, _ANSWERED)
