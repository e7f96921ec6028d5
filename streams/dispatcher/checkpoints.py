"""The finished steps of jobs, in the store `checkpoints`."""

from __future__ import annotations

from streams.serde.keys import SEPARATOR, after, join
from streams.serde.records import Job
from streams.state.store import KeyValueStore


def steps_of(checkpoints: KeyValueStore, job: Job) -> dict[str, str]:
    """The finished steps of a job: name to JSON."""
    prefix = join(job.job_id, str(job.incarnation)) + SEPARATOR
    found = checkpoints.range(prefix, after(prefix))
    return {key[len(prefix) :].decode(): value.decode() for key, value in found}
