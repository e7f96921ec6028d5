"""What an application announces of its job types: policies, tools and JSON schemas."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from streams.errors import ConfigError
from streams.serde.codec import JOB_TYPES
from streams.serde.records import AnnouncedType, JobTypes
from streams.serde.sizes import MAX_JOB_TYPES_BYTES

if TYPE_CHECKING:
    from streams.worker.job_types import JobType


def announced(app: str, version: str | None, jobs: Iterable[JobType]) -> JobTypes:
    """The announcement of an application, which replaces its former one.

    Raises:
        ConfigError: a type cannot be one of JSON, or all schemas together are too large.
    """
    found = JobTypes(app, version, tuple(map(_announced, jobs)))
    size = len(JOB_TYPES.encode(found))
    if size > MAX_JOB_TYPES_BYTES:
        raise ConfigError(
            f"app {app!r}: its job types with their JSON schemas have {size:,} bytes, more than "
            f"{MAX_JOB_TYPES_BYTES:,}: give the largest types plainer inputs and results"
        )
    return found


def _announced(job: JobType) -> AnnouncedType:
    return AnnouncedType(
        job.name,
        job.retry.max_attempts,
        tuple(map(float, job.retry.backoff)),
        job.timeout,
        None if job.scopes is None else tuple(sorted(job.scopes)),
        job.types.input_schema,
        job.types.result_schema,
    )
