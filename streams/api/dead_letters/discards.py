"""Marks dead letters about which nothing is left to do, so that lists leave them out.

Nothing is lost: a discarded letter keeps all that it says, and can still be shown and replayed.
"""

from __future__ import annotations

from dataclasses import replace

import orjson

from streams.api.dead_letters import letters
from streams.api.operator_state import AppState
from streams.http.moments import rfc3339
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
        tenant_id, after = marked.tenant_id or "", _mark(marked)
        entry = state.entry(id_, tenant_id, after=after, note=note, verb="dead_letter.discard")
        await letters.rewrite(state, replace(kept, letter=marked), entry)
        return marked
    return None


def _mark(letter: DeadLetter) -> str:
    at = None if letter.discarded_at is None else rfc3339(letter.discarded_at)
    return orjson.dumps({"discarded_at": at, "discarded_by": letter.discarded_by}).decode()
