"""Hands a worker the raw bodies of the events of its leases, and no others.

Which body that is, the committed record of the job says, and never the worker. A body is fetched
and unsealed beside the stage's thread, and sent in pieces as the connection has room for them.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from streams import user_json
from streams.errors import PermanentError, TransientError
from streams.link import metrics
from streams.link.fair_room import FairRoom
from streams.link.requests import CommittedJobs, Connection, leased
from streams.serde.link.messages import Body, Piece
from streams.serde.records import Job, PayloadRef
from streams.vault.keyring import DataKeyring
from streams.vault.opening import Fetch, open_payload

IN_ALL_BYTES = 64 * 1024 * 1024
"""How much bodies take at once, of all workers: each counts twice, sealed and opened."""
PIECE_BYTES = 256 * 1024
SENT_SECONDS = 60.0
"""How long a worker may take to read a body: for so long it keeps others from their turn."""

_COPIES = 2


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a body is, and of which event it is."""

    event_id: str
    ref: PayloadRef


class Bodies:
    """Answers requests for bodies, in one event loop."""

    def __init__(
        self,
        jobs: CommittedJobs,
        keyring: DataKeyring,
        fetch: Fetch,
        in_all: int = IN_ALL_BYTES,
        sent_seconds: float = SENT_SECONDS,
    ) -> None:
        self._jobs = jobs
        self._keyring = keyring
        self._fetch = fetch
        self._room = FairRoom(in_all)
        metrics.BODY_BYTES.set_function(lambda: self._room.taken)
        self._sent_seconds = sent_seconds
        self._turns: WeakKeyDictionary[Connection, asyncio.Lock] = WeakKeyDictionary()

    async def answer(self, connection: Connection, request: Body) -> None:
        """Send the body that a worker asks for.

        Raises:
            NotOwned: the partition is not owned now.
            PermanentError: the job has no such body, or it is gone.
            TransientError: the worker has no living lease of the job, the body cannot be read now,
                or the worker reads it too slowly.
        """
        job, place = self._place(connection, request)
        size = place.ref.size * _COPIES
        async with self._room.room(job.tenant_id, connection, size):
            job, place = self._place(connection, request)  # the wait may have been long
            tenant_id = job.tenant_id
            body = await open_payload(
                self._keyring, self._fetch, tenant_id, place.event_id, place.ref
            )
            await self._send(connection, request.request, body)

    def _place(self, connection: Connection, request: Body) -> tuple[Job, _Place]:
        job = leased(self._jobs, connection, request)
        if request.wait:
            found = self._of_wait(job, request)
        elif request.index is not None:
            found = _of_batch(job, request.index)
        else:
            found = _of_event(job)
        if found is None:
            raise PermanentError(f"job {job.job_id} has no such payload")
        return job, found

    def _of_wait(self, job: Job, request: Body) -> _Place | None:
        left = self._jobs.left(request.partition, job, request.wait)
        if left is None or left.kind != "event" or left.value is None or left.raises is not None:
            return None
        value = user_json.read(left.value)
        ref = value["payload_ref"]
        return _Place(
            value["event"]["event_id"], PayloadRef(**ref | {"offsets": tuple(ref["offsets"])})
        )

    async def _send(self, connection: Connection, request: int, body: bytes) -> None:
        turns = self._turns.setdefault(connection, asyncio.Lock())
        try:
            async with asyncio.timeout(self._sent_seconds):
                for at in range(0, len(body) or 1, PIECE_BYTES):
                    piece, last = body[at : at + PIECE_BYTES], at + PIECE_BYTES >= len(body)
                    async with turns:  # each looks at the room that the one before has left
                        await connection.room()
                        connection.send(Piece(request, piece, last, at))
        except TimeoutError:
            told = f"the body was not read within {self._sent_seconds:g} s: ask for it again"
            raise TransientError(told) from None


def _of_event(job: Job) -> _Place | None:
    if job.event is None or job.payload_ref is None:
        return None
    return _Place(job.event.event_id, job.payload_ref)


def _of_batch(job: Job, index: int) -> _Place | None:
    if not 0 <= index < len(job.events):
        return None
    found = job.events[index]
    return _Place(found.event.event_id, found.payload_ref)
