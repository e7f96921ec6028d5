"""Seals and opens what stands in records and in the store of artifacts, for workers without keys.

A worker names what a text belongs to, and what is sealed is bound to that place: an approval to the
job and its life, the key of an artifact to the job that saved it. A worker seals for the job of its
lease alone. It opens an approval of that job alone, but the artifacts of all jobs of the tenant:
jobs pass references on to each other.
"""

from __future__ import annotations

from streams import user_json
from streams.artifacts.sealing import place_of
from streams.errors import PermanentError
from streams.link.requests import CommittedJobs, Connection, leased
from streams.serde.ids import approval_id
from streams.serde.link.messages import Done, Seal, Unseal
from streams.serde.link.places import ApprovalPlace, ArtifactPlace, Place, read
from streams.serde.records import Job
from streams.vault.keyring import DataKeyring
from streams.vault.sealed_json import open_with, seal_with

MOST_BYTES = 1024 * 1024
"""The most of a text: more than a record holds."""


class Sealing:
    """Answers requests to seal and to open, in one event loop."""

    def __init__(self, jobs: CommittedJobs, keyring: DataKeyring) -> None:
        self._jobs = jobs
        self._keyring = keyring

    async def seal(self, connection: Connection, request: Seal) -> None:
        """Send a text sealed for the job of a lease.

        Raises:
            NotOwned: the partition is not owned now.
            PermanentError: the text is too large or no JSON, it belongs to another job, or the
                tenant is erased.
            TransientError: the worker has no living lease of the job.
        """
        job = leased(self._jobs, connection, request)
        place = _named(request.place)
        if isinstance(place, ArtifactPlace) and place.of != job.job_id:
            raise PermanentError(f"{request.place!r} belongs to another job than {job.job_id}")
        _check_size(len(request.text))
        try:
            value = user_json.read(request.text)
            sealed = seal_with(self._keyring, job.tenant_id, _purpose(job, place), value)
        except (ValueError, TypeError) as error:
            raise PermanentError(f"the text to be sealed is no JSON: {error}") from error
        connection.send(Done(request.request, sealed=sealed))

    async def unseal(self, connection: Connection, request: Unseal) -> None:
        """Send a text that was sealed for the job of a lease, or for an artifact of its tenant.

        Raises:
            NotOwned: the partition is not owned now.
            PermanentError: it was sealed for another place or tenant, or the tenant is erased.
            TransientError: the worker has no living lease of the job, or the key is not known here.
        """
        job = leased(self._jobs, connection, request)
        purpose = _purpose(job, _named(request.place))
        _check_size(len(request.sealed.data))
        value = await open_with(self._keyring, job.tenant_id, purpose, request.sealed)
        connection.send(Done(request.request, text=user_json.write(value).decode()))


def _named(text: str) -> Place:
    place = read(text)
    if place is None:
        raise PermanentError(f"{text[:80]!r} is no place of an approval or artifact")
    return place


def _purpose(job: Job, place: Place) -> str:
    if isinstance(place, ApprovalPlace):
        return approval_id(job.tenant_id, job.scope, place.key)
    return place_of(job.tenant_id, place.artifact, place.of)


def _check_size(size: int) -> None:
    if size > MOST_BYTES:
        raise PermanentError(
            f"a text of {size:,} bytes is more than the {MOST_BYTES:,} of a record"
        )
