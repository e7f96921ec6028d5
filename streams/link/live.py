"""Publishes what runs say while they run, and what applications announce, for their workers.

The records are those that workers wrote themselves when they had a client of Kafka. They are
written outside the stage's transactions, by one plain producer. Tenant, job and run are those of
the committed lease, and the time is not after this process's own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol, TypeVar
from weakref import WeakKeyDictionary

from streams import user_json
from streams.errors import PermanentError, RecordTooLarge
from streams.link.flow import Bounds, Flow
from streams.link.grant import Grant
from streams.link.requests import CommittedJobs, Connection, leased
from streams.process.wall_clock import wall_ms
from streams.serde import records
from streams.serde.codec import JOB_TYPES, LIVE, PROGRESS, Codec
from streams.serde.ids import partition_for
from streams.serde.link.messages import Announce, Done, Live, Progress
from streams.serde.records import Job
from streams.serde.sizes import MAX_JOB_TYPES_BYTES, MAX_VALUE_BYTES

T = TypeVar("T")

_LONGEST_NAME = 255
_FRAMING_BYTES = 16 * 1024
"""Room for the names in a record beside its value or text."""


class Publisher(Protocol):
    """Writes records to topics by their logical names, as `AwaitedProducer` does."""

    async def send(
        self, topic: str, key: bytes | None, value: bytes | None, *, partition: int
    ) -> int:
        """Return once every in-sync replica has the record; calls keep their order.

        Raises:
            KafkaUnavailable: it was not acknowledged.
            RecordTooLarge: the topic takes none of this size.
        """


class Publishing:
    """Answers requests to publish, in one event loop; nothing of an erased tenant is published."""

    def __init__(
        self,
        jobs: CommittedJobs,
        publisher: Publisher,
        partitions: int,
        bounds: Bounds | None = None,
        clock: Callable[[], float] = time.monotonic,
        is_erased: Callable[[str], bool] = lambda _: False,
        pool_of: Callable[[str], str] = lambda _: "default",
    ) -> None:
        self._jobs = jobs
        self._publisher = publisher
        self._partitions = partitions
        self._bounds = bounds or Bounds()
        self._clock = clock
        self._is_erased = is_erased
        self._pool_of = pool_of
        self._flows: WeakKeyDictionary[Connection, Flow] = WeakKeyDictionary()

    async def live(self, connection: Connection, request: Live) -> None:
        """Publish what a run says on `jobs.live`; see `_publish` for errors."""
        job = self._run(connection, request)
        said = records.LiveOutput(
            job.job_id,
            job.tenant_id,
            request.run_id,
            job.epoch,
            min(request.at, wall_ms()),
            request.kind,
            request.step,
            request.n,
            request.text,
        )
        await self._of_job(connection, request.request, "jobs.live", job, _encoded(LIVE, said))

    async def progress(self, connection: Connection, request: Progress) -> None:
        """Publish how far a run is on `jobs.progress`; see `_publish` for errors."""
        job = self._run(connection, request)
        at = min(request.at, wall_ms())
        found = records.Progress(job.job_id, job.tenant_id, request.run_id, at, request.value)
        await self._of_job(
            connection, request.request, "jobs.progress", job, _encoded(PROGRESS, found)
        )

    async def announce(self, connection: Connection, request: Announce) -> None:
        """Publish job types on `jobs.types`; see `_publish` for errors."""
        found = _announced(connection.grant, request.types, self._pool_of)
        for each in found.types:
            _check_schemas(each)
        value = _encoded(JOB_TYPES, found)
        _check_size("the job types of an application", len(value), MAX_JOB_TYPES_BYTES)
        partition = partition_for(found.app, self._partitions)
        await self._publish(
            connection, request.request, "jobs.types", found.app.encode(), value, partition
        )

    def _run(self, connection: Connection, request: Live | Progress) -> Job:
        job = leased(self._jobs, connection, request)
        if job.run_id != request.run_id:
            raise PermanentError(f"{request.run_id!r} is not the run that job {job.job_id} has now")
        if self._is_erased(job.tenant_id):
            raise PermanentError(f"tenant {job.tenant_id} is erased: nothing of it is published")
        return job

    async def _of_job(
        self, connection: Connection, request: int, topic: str, job: Job, value: bytes
    ) -> None:
        _check_size("what a run says", len(value), MAX_VALUE_BYTES + _FRAMING_BYTES)
        partition = partition_for(job.tenant_id, self._partitions)
        await self._publish(connection, request, topic, job.job_id.encode(), value, partition)

    async def _publish(
        self,
        connection: Connection,
        request: int,
        topic: str,
        key: bytes,
        value: bytes,
        partition: int,
    ) -> None:
        """Write a record, and answer once it is acknowledged.

        Raises:
            PermanentError: the topic takes no record of this size.
            TransientError: the connection publishes too much now.
            KafkaUnavailable: the record was not acknowledged.
        """
        flow = self._flows.get(connection)
        if flow is None:
            flow = self._flows[connection] = Flow(self._bounds, self._clock)
        try:
            with flow.sending(len(value)):
                await self._publisher.send(topic, key, value, partition=partition)
        except RecordTooLarge as error:
            raise PermanentError(f"{error}: `tidegate topology plan` says what to mend") from error
        connection.send(Done(request))


def _encoded(codec: Codec[T], record: T) -> bytes:
    """Return a record as it goes to Kafka.

    Raises:
        PermanentError: it cannot be written: a number has more than 64 bits, or a text is none.
    """
    try:
        return codec.encode(record)
    except Exception as error:
        raise PermanentError(f"this is no record: {error}") from error


def _check_size(what: str, size: int, most: int) -> None:
    if size > most:
        raise PermanentError(f"{what} has {size:,} bytes, more than {most:,}")


def _announced(
    grant: Grant, found: records.JobTypes, pool_of: Callable[[str], str]
) -> records.JobTypes:
    """Return what a worker may say of the job types that all tenants' jobs have.

    What one says whose token names job types or pools stands beside what others say of the
    application.
    """
    if grant.tenants is not None and grant.job_types is None:
        raise PermanentError(
            "the worker's token is of some tenants, and job types are announced for all of them: "
            "make one that names its job types, too"
        )
    for name in (found.app, *(each.name for each in found.types)):
        if not 0 < len(name) <= _LONGEST_NAME or not name.isprintable():
            told = f"a name has 1 to {_LONGEST_NAME} printable characters"
            raise PermanentError(f"{name[:_LONGEST_NAME]!r} is no name: {told}")
    for name in (each.name for each in found.types):
        if not grant.allows_type(name):
            raise PermanentError(f"the worker's token does not allow the job type {name!r}")
        if not grant.allows_pool(pool := pool_of(name)):
            told = f"does not allow the pool {pool} of the job type {name!r}"
            raise PermanentError(f"the worker's token {told}")
    limits = grant.job_types or [f"pool {pool}" for pool in grant.pools or ()]
    return replace(found, app=f"{found.app} ({', '.join(sorted(limits))})") if limits else found


def _check_schemas(found: records.AnnouncedType) -> None:
    for schema in (found.input_schema, found.result_schema):
        try:
            if schema is not None:
                user_json.read(schema)
        except ValueError as error:
            raise PermanentError(f"a schema of {found.name!r} is no JSON: {error}") from error
