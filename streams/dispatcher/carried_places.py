"""How far the waits of a job for events had got when it begins anew, for those of its next life.

Without that, they would get the same events again.
"""

from __future__ import annotations

from typing import Any

from streams import user_json
from streams.dispatcher.checkpoints import keep, steps_of
from streams.dispatcher.step import Step
from streams.serde.records import Job, StepResult
from streams.serde.step_ids import seen_id

MOST_CARRIED = 100
"""So many names and matches, those that got furthest: a loop may have another match each time."""


def carry(step: Step, job: Job, life: Job, given: int) -> None:
    """Note for a job's next life how far the waits of each name and match had got.

    The last run was not given the events behind the number `given`: they are left. Leave out places
    behind which events are not kept any more.
    """
    got: dict[str, StepResult] = {}
    left: dict[str, StepResult] = {}
    for result in steps_of(step.checkpoints, job):
        place = _place(result)
        if place is None:
            continue
        id_ = seen_id(result.id, result.digest)
        is_left = result.kind == "event" and result.raises is None and result.number > given
        if is_left:
            place |= {"number": result.number - 1, "after_event": ""}
        number, of = place["number"], left if is_left else got
        value = user_json.write(place).decode()
        note = StepResult(id_, "passed", digest=result.digest, value=value, number=number)
        if id_ not in of or (number < of[id_].number if is_left else of[id_].number < number):
            of[id_] = note
    forgotten = step.shared.open_waits.forgotten()
    notes = [note for note in (got | left).values() if note.number >= forgotten]
    for note in sorted(notes, key=lambda each: each.number)[-MOST_CARRIED:]:
        keep(step.checkpoints, life, note)


def _place(left: StepResult) -> dict[str, Any] | None:
    """The place of a wait for events, if it left one."""
    if left.kind not in ("event", "passed") or left.value is None:
        return None
    value = user_json.read(left.value)
    names = ("number", "at", "after_event")
    return {name: value[name] for name in names} if "number" in value else None
