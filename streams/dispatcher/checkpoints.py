"""The finished steps and waits of jobs, in the store `checkpoints`."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

from streams.errors import PoisonRecord
from streams.serde.codec import STEP_RESULT
from streams.serde.keys import SEPARATOR, after, checkpoint_key, join
from streams.serde.records import Job, StepResult
from streams.serde.records.jobs import WaitKind
from streams.serde.step_ids import CHILD, is_note
from streams.state.store import KeyValueStore

_MOST_BYTES = 4 * 1024 * 1024
_OWN_KINDS = frozenset((*get_args(WaitKind), CHILD, "passed"))
"""The kinds of results that the dispatcher writes, and reads again."""


def steps_of(checkpoints: KeyValueStore, job: Job) -> tuple[StepResult, ...]:
    """What the finished steps and waits of a job left, in the order of their ids.

    Those behind the first 4 MiB are left out, since no lease could hold as much: a worker may leave
    more than fits into memory.
    """
    prefix = join(job.job_id, str(job.incarnation)) + SEPARATOR
    found: list[StepResult] = []
    size = 0
    for _, value in checkpoints.range(prefix, after(prefix)):
        found.append(STEP_RESULT.decode(value))
        size += len(value)
        if size > _MOST_BYTES:
            break
    return tuple(found)


def find(checkpoints: KeyValueStore, job: Job, id_: str) -> StepResult | None:
    """What a step or wait of a job left."""
    value = checkpoints.get(checkpoint_key(job.job_id, job.incarnation, id_))
    return None if value is None else STEP_RESULT.decode(value)


def drop(checkpoints: KeyValueStore, job: Job, result: StepResult) -> None:
    """Forget what a step or wait of a job left."""
    checkpoints.delete(checkpoint_key(job.job_id, job.incarnation, result.id))


def keep(checkpoints: KeyValueStore, job: Job, result: StepResult) -> None:
    """Keep what a step or wait of a job left, with the version of the code that asked for it."""
    if result.code is None and job.code is not None:
        result = replace(result, code=job.code)
    key = checkpoint_key(job.job_id, job.incarnation, result.id)
    checkpoints.put(key, STEP_RESULT.encode(result))


def refuse_forged(result: StepResult) -> None:
    """Check what a worker says that a step left.

    What a wait or child left, and how far a wait had got, the dispatcher alone says. A worker may
    read the body of an event that ended a wait, and the dispatcher relies on the values.

    Raises:
        PoisonRecord: it has the kind, or the id, of what the dispatcher writes.
    """
    if result.kind in _OWN_KINDS or is_note(result.id):
        raise PoisonRecord("forged_result", f"a worker leaves no {result.kind} {result.id[:200]!r}")


def result_of(checkpoints: KeyValueStore, job: Job, id_: str) -> StepResult | None:
    """What one step or wait of a job left; None if it has not ended."""
    value = checkpoints.get(checkpoint_key(job.job_id, job.incarnation, id_))
    return None if value is None else STEP_RESULT.decode(value)
