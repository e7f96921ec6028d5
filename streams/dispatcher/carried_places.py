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


def carry(step: Step, job: Job, life: Job, given: int) -> None:
    """Note for a job's next life how far the waits of each name and match had got.

    The last run was not given the events behind the number `given`. Leave out places behind which
    events are not kept any more.
    """
    found: dict[str, StepResult] = {}
    for left in steps_of(step.checkpoints, job):
        place = _place(left, given)
        if place is None or place["number"] < step.shared.open_waits.forgotten():
            continue
        id_, number = seen_id(left.id, left.digest), place["number"]
        if id_ not in found or found[id_].number < number:
            value = user_json.write(place).decode()
            found[id_] = StepResult(id_, "passed", digest=left.digest, value=value, number=number)
    for note in found.values():
        keep(step.checkpoints, life, note)


def _place(left: StepResult, given: int) -> dict[str, Any] | None:
    """The place behind which the job has got no event yet, if a wait for events left one."""
    was_given = left.kind == "passed" or left.raises is not None or left.number <= given
    if left.kind not in ("event", "passed") or left.value is None or not was_given:
        return None
    value = user_json.read(left.value)
    names = ("number", "at", "after_event")
    return {name: value[name] for name in names} if "number" in value else None
