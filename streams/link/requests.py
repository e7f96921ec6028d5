"""The contract between a link's server and what answers a worker's requests.

A request is anything that a worker asks for beside its commands. It changes no job, so it does not
enter the stage's thread: it is answered in the loop of the server, from what the last commit left.

A request about a partition that this process does not own is dropped without an answer, as commands
are: the worker asks its heir, or asks again once this owner announces the partition anew. A worker
that asks again under the same number gets the answer to the later request alone.
"""

from __future__ import annotations

from typing import Protocol

from streams.errors import TransientError
from streams.link.grant import Grant
from streams.serde.job_states import LEASED
from streams.serde.link.messages import (
    Announce,
    Body,
    FromOwner,
    Live,
    Progress,
    Seal,
    Unseal,
)
from streams.serde.records import Job, StepResult

OfALease = Body | Seal | Unseal | Live | Progress
"""A request that only the worker with the living lease of the job may make."""
Request = OfALease | Announce


class Connection(Protocol):
    """A worker's connection; it is used in the loop of its server alone.

    Two connections are never equal, and one can be referred to weakly.
    """

    @property
    def worker_id(self) -> str:
        """The worker's id, as leases name it."""

    @property
    def grant(self) -> Grant:
        """What the worker's token lets it run."""

    def send(self, message: FromOwner) -> None:
        """Send a message after those that wait already; this neither blocks nor raises.

        A connection that has ended drops it.
        """

    async def room(self) -> None:
        """Return once there is room for more of a large answer, and at once after the end."""


class Answers(Protocol):
    """What answers requests; the server calls it in its loop."""

    def ask(self, connection: Connection, request: Request) -> None:
        """Answer a request by and by, over the same connection; this does not block."""

    def closed(self, connection: Connection) -> None:
        """Forget a connection that has ended: nothing more is sent over it."""


class NotOwned(LookupError):
    """This process does not own a partition, or does so no more."""


class CommittedJobs(Protocol):
    """The jobs of the partitions that this process owns, as the last commit left them."""

    def job(self, partition: int, job_id: str) -> Job | None:
        """Return a job; None if there is none. Any thread may ask.

        Raises:
            NotOwned: the partition is not owned now.
        """

    def left(self, partition: int, job: Job, wait: str) -> StepResult | None:
        """Return what a finished wait or step of a job left; None if there is none.

        Raises:
            NotOwned: the partition is not owned now.
        """


def living(jobs: CommittedJobs, connection: Connection, request: OfALease) -> Job | None:
    """Return the job of a request if its worker has the living lease of it, else None.

    Raises:
        NotOwned: the partition of the request is not owned now.
    """
    job = jobs.job(request.partition, request.job_id)
    if job is None or job.status not in LEASED or job.job_id != request.job_id:
        return None
    if (job.worker_id, job.epoch) != (connection.worker_id, request.epoch):
        return None
    grant = connection.grant
    return job if grant.covers(job.tenant_id) and grant.allows_type(job.type) else None


def leased(jobs: CommittedJobs, connection: Connection, request: OfALease) -> Job:
    """Return the job of a request, of which its worker has the living lease.

    Raises:
        NotOwned: the partition of the request is not owned now.
        TransientError: the worker has no such lease here; another owner may know of it.
    """
    job = living(jobs, connection, request)
    if job is None:
        raise TransientError(f"job {request.job_id} has no living lease of this worker here")
    return job
