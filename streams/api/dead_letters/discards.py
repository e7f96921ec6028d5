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

    Raises what `letters.marked` raises.
    """

    def mark(letter: DeadLetter) -> DeadLetter:
        if letter.discarded_at is not None:
            return letter
        by = state.principal.id
        return replace(letter, discarded_at=wall_ms(), discarded_by=by, discard_note=note)

    return await letters.marked(state, id_, mark, "dead_letter.discard", note)
