"""Manual work: a person does by hand what the job or record of a dead letter was to do.

Such a letter waits for nobody else: lists leave it out unless they are asked for manual work, and
no replay in bulk selects it. It ends when it is done by hand, or discarded.
"""

from __future__ import annotations

from dataclasses import replace

from streams.api.dead_letters import letters
from streams.api.operator_state import AppState
from streams.api.refusal import Refusal
from streams.dead_letter import is_closed, is_manual, is_replayed
from streams.process.wall_clock import wall_ms
from streams.serde.records import DeadLetter


async def made_manual(
    state: AppState, id_: str, note: str, assignee: str | None, *, anew: bool = True
) -> DeadLetter | None:
    """Make a letter the work of a person and return it; None if there is none.

    A repetition changes nothing. With `anew`, a letter that is manual work gets another note or
    assignee.

    Raises:
        Refusal: 409, it was replayed, or nothing is left to do about it, or it is manual work
            already.
        Others as of `letters.marked`.
    """

    def mark(letter: DeadLetter) -> DeadLetter:
        if is_closed(letter):
            raise Refusal(409, "letter-closed", f"nothing is left to do about {letter.id}")
        if is_replayed(letter):
            raise Refusal(409, "already-replayed", f"{letter.id} was replayed: do not do it twice")
        if is_manual(letter):
            if (letter.manual_note, letter.assignee) == (note, assignee):
                return letter
            if not anew:
                raise Refusal(409, "already-manual", f"{letter.id} is manual work already")
        by = state.principal.id
        return replace(
            letter, manual_at=wall_ms(), manual_by=by, manual_note=note, assignee=assignee
        )

    return await letters.marked(state, id_, mark, "dead_letter.manual", note)


async def done(state: AppState, id_: str, note: str) -> DeadLetter | None:
    """Mark manual work as done, unless it is, and return its letter; None if there is none.

    Raises:
        Refusal: 409, the letter is no manual work.
        Others as of `letters.marked`.
    """

    def mark(letter: DeadLetter) -> DeadLetter:
        if letter.done_at is not None:
            return letter
        if not is_manual(letter):
            detail = f"{letter.id} is no manual work: make it some first (`manual`)"
            raise Refusal(409, "not-manual", detail)
        return replace(letter, done_at=wall_ms(), done_by=state.principal.id, done_note=note)

    return await letters.marked(state, id_, mark, "dead_letter.done", note)
