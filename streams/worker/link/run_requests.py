"""What one run asks the owner of its job for: bodies, sealing, and to publish what it says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from streams.errors import LeaseLost, TransientError
from streams.process.wall_clock import wall_ms
from streams.serde.link.messages import Body, Done, Live, Message, Progress, Seal, Unseal
from streams.serde.records import LiveOutput, Sealed
from streams.worker.lease.held_leases import Held
from streams.worker.link.link import Link
from streams.worker.link.promise import promise
from streams.worker.link.requests import Question, Result

BODY_SECONDS = 30.0
"""How long a body may take; it may come from a broker that is away."""

_Make = Callable[..., Message]


class RunRequests:
    """The requests of one run, in its event loop. Each is worth something while its lease is."""

    def __init__(self, link: Link, held: Held, clock: Callable[[], float]) -> None:
        self._link = link
        self._held = held
        self._clock = clock

    async def body(self, index: int | None, wait: str) -> bytes:
        """The raw body of an event: of the job, of a batch, or of one that ended a wait.

        Raises:
            PermanentError: it is gone, or its tenant is erased.
            TransientError: it cannot be had now.
        """
        until = self._clock() + BODY_SECONDS
        late = TransientError("no owner of its partition gave the body in time")
        make = partial(_message, Body, index=index, wait=wait)
        question = self._question(make, late, lambda: min(until, self._held.valid_until), False)
        result = await self._ask(question)
        return result if isinstance(result, bytes) else b""

    async def seal(self, place: str, text: str) -> Sealed:
        """Seal a JSON text under the tenant's key; it opens at this place alone.

        Raises:
            PermanentError: the tenant is erased, or its key does not open.
            LeaseLost: the lease is over.
        """
        done = await self._ask(self._question(partial(_message, Seal, place=place, text=text)))
        if isinstance(done, Done) and done.sealed is not None:
            return done.sealed
        raise TransientError("the owner has sealed nothing")

    async def open(self, place: str, sealed: Sealed) -> str:
        """The JSON text that was sealed at a place.

        Raises:
            PermanentError: it cannot be opened, or its tenant is erased.
            LeaseLost: the lease is over.
        """
        make = partial(_message, Unseal, place=place, sealed=sealed)
        done = await self._ask(self._question(make))
        if isinstance(done, Done) and done.text is not None:
            return done.text
        raise TransientError("the owner has opened nothing")

    async def progress(self, value: str) -> None:
        """Publish progress, JSON text; return once it is stored.

        Raises:
            LeaseLost: the lease is over.
        """
        run_id = self._held.lease.run_id
        make = partial(_message, Progress, run_id=run_id, at=wall_ms(), value=value)
        await self._ask(self._question(make))

    def live(self, said: LiveOutput) -> asyncio.Future[Any]:
        """Publish what the run says; the future is done once it is stored."""
        fields: dict[str, Any] = {"run_id": said.run_id, "at": said.at, "kind": said.kind}
        make = partial(_message, Live, **fields, step=said.step, n=said.n, text=said.text)
        return self._ask(self._question(make))

    def _question(
        self,
        make: _Make,
        late: Exception | None = None,
        until: Callable[[], float] | None = None,
        again: bool = True,
    ) -> Question:
        lease = self._held.lease
        late = late or LeaseLost(f"run {lease.run_id} is over: nothing more is asked for it")
        of = {"partition": lease.home_partition, "job_id": lease.job_id, "epoch": lease.epoch}
        until = until or (lambda: self._held.valid_until)
        return Question(partial(make, **of), lease.home_partition, until, late, again)

    def _ask(self, question: Question) -> asyncio.Future[Result]:
        return promise(partial(self._link.ask, question))


def _message(of: type[Any], /, request: int, **fields: Any) -> Message:
    made: Message = of(request=request, **fields)
    return made
