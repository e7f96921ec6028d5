"""Marks dead letters about which nothing is left to do, so that lists leave them out.

Nothing is lost: a discarded letter keeps all that it says, and can still be shown and replayed.
"""

from __future__ import annotations

from dataclasses import replace

from streams.api.dead_letters import letters
from streams.api.operator_state import AppState
from streams.process.wall_clock import wall_ms
from streams.serde.records import DeadLetter


async def discarded(state: AppState, id_: str, note: str) -> DeadLetter | None:
    """Mark a letter, unless it is marked, and return it; None if there is none.

    Raises:
        Refusal: 503, the read model is late: call again.
        RecordTooLarge: the broker will never take the letter.
        KafkaUnavailable: it was not acknowledged; it may still be written.
    """
    for kept in await letters.current(state, [id_]):
        if kept.letter.discarded_at is not None:
            return kept.letter
        marked = replace(
            kept.letter,
            discarded_at=wall_ms(),
            discarded_by=state.principal.id,
            discard_note=note,
        )
        await letters.rewrite(state, replace(kept, letter=marked))
        return marked
    return None
