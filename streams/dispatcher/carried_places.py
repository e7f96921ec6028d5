"""How far the waits of a job for events had got when it begins anew, for those of its next life.

Without that, they would get the same events again.
"""

from __future__ import annotations

from collections.abc import Set

from streams import user_json
from streams.dispatcher.checkpoints import keep, steps_of
from streams.dispatcher.step import Step
from streams.serde.records import Job, StepResult
from streams.serde.step_ids import seen_id

MOST_CARRIED = 100
"""So many names and matches, those that got furthest: a loop may have another match each time."""


def carry(step: Step, job: Job, life: Job, given: Set[str]) -> None:
    """Note for a job's next life how far the waits of each name and match had got.

    `given` are the ids of the waits whose events the last run was given: those of others are left.
    Leave out places behind which events are not kept any more.
    """
    got: dict[str, StepResult] = {}
    left: dict[str, StepResult] = {}
    for result in steps_of(step.checkpoints, job):
        has_event = result.kind == "event" and result.raises is None
        is_left = has_event and result.id not in given
        note = _note(result, is_left=is_left)
        if note is not None:
            choose, of = (min, left) if is_left else (max, got)
            of[note.id] = choose(of.get(note.id, note), note, key=_number)
    forgotten = step.shared.open_waits.forgotten()
    notes = [note for note in (got | left).values() if note.number >= forgotten]
    for note in sorted(notes, key=_number)[-MOST_CARRIED:]:
        keep(step.checkpoints, life, note)


def _note(result: StepResult, *, is_left: bool) -> StepResult | None:
    """The place of a wait for events, if it left one: before its event if that `is_left`."""
    if result.kind not in ("event", "passed") or result.value is None:
        return None
    value = user_json.read(result.value)
    if "number" not in value:
        return None
    place = {name: value[name] for name in ("number", "at", "after_event")}
    if is_left:
        place |= {"number": result.number - 1, "after_event": ""}
    id_, written = seen_id(result.id, result.digest), user_json.write(place).decode()
    return StepResult(id_, "passed", digest=result.digest, value=written, number=place["number"])


def _number(note: StepResult) -> int:
    return note.number
