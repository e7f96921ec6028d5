"""A worker in memory, with an owner's side that a test scripts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from streams.serde.ids import new_id
from streams.serde.link import commands, messages
from streams.serde.link.frames import encoded
from streams.serde.link.messages import (
    Acked,
    Announce,
    Beat,
    Body,
    Done,
    Failed,
    FromWorker,
    Leased,
    Live,
    Order,
    Piece,
    Progress,
    Seal,
    Unseal,
)
from streams.serde.records import (
    Claim,
    ClaimStep,
    Command,
    Declined,
    Ended,
    Heartbeat,
    Lease,
    Outcome,
    PayloadRef,
    Reply,
    Sealed,
)
from streams.testing.plain_logs import plain_logs
from streams.topology.model import LeasePolicy, Priority, Topology
from streams.worker.app import App
from streams.worker.link.link import Link
from streams.worker.worker import Worker, WorkerSpec
from support.conditions import PATIENCE_SECONDS
from support.leases import lease_to
from support.scripted_owner import ScriptedOwner

B = TypeVar("B")
PARTITIONS = 4
LATE_SECONDS = 0.1
Answer = Callable[[Any], dict[str, Any] | None]


def granted(claim: Claim) -> dict[str, Any]:
    """The ledger's usual answer."""
    return {"kind": "granted", "idempotency_key": f"idk of {claim.action}"}


def topology(leases: LeasePolicy | None = None, partitions: int = PARTITIONS) -> Topology:
    return Topology(
        partitions=partitions,
        window_ms=1,
        topics={},
        stages={},
        priorities={"webhook": Priority("webhook", 0)},
        pools=("default",),
        job_types={},
        routes=(),
        limits=(),
        finished_jobs_ms=1,
        leases=leases or LeasePolicy(),
    )


class Clock:
    """Monotonic time that a test moves; it tells when it was looked at."""

    def __init__(self) -> None:
        self.now = 0.0
        self._looked = asyncio.Event()

    def __call__(self) -> float:
        self._looked.set()
        return self.now

    async def looked_at(self) -> None:
        """Somebody looks from now on: while a handler waits here, only its run's watch does."""
        self._looked.clear()
        await self._looked.wait()


class Bench:
    """The owner of all partitions, from whom one worker has its leases. It is its `Connects`.

    It acknowledges every command at once, except the next `late` ones, which it acknowledges a
    moment later, and while it is `silent`. Claims get the answer of `answer`. Requests are answered
    at once, or late if they are slow; for bodies there may be a `passing_failure`.
    """

    def __init__(
        self,
        app: App,
        slots: int,
        leases: LeasePolicy,
        answer: Answer,
        clock: Callable[[], float],
    ) -> None:
        self.answer = answer
        self.late = 0
        self.silent = False
        self.bodies_of_events: dict[str, bytes] = {}
        self.passing_failure = ""
        self.slow_requests = False
        self.leases = leases
        self._given: dict[str, Lease] = {}
        self._news = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._is_closed = False
        self.worker = Worker(
            app, self, topology(leases), WorkerSpec("w1", slots=slots), clock=clock
        )
        self.owner = ScriptedOwner(self.worker.link, partitions=PARTITIONS, leases=leases)
        self.owner.on_message = self._heard

    def start(self, link: Link, failed: Callable[[Exception], None]) -> None:
        if not self.owner.said:  # `serve` starts a worker that was started already
            self.owner.open(*range(PARTITIONS))

    def close(self) -> None:
        self.owner.cut("the worker ends")

    def give(self, type: str = "job", *, beat: int | None = None, **changes: Any) -> Lease:
        """Lease a job to the worker, in answer to a beat, by default to the newest."""
        lease = replace(self.blank(type), **changes)
        self._given[lease.job_id] = lease
        answered = self.owner.of(Beat)[-1].number if beat is None else beat
        self.owner.say(Leased(lease.home_partition, answered, lease))
        return lease

    @property
    def given(self) -> int:
        """How many leases were sent."""
        return len(self._given)

    def blank(self, type: str = "job") -> Lease:
        """A lease for the worker that is not sent."""
        return replace(
            lease_to(0),
            job_id=new_id("job"),
            run_id=new_id("run"),
            type=type,
            max_attempts=5,
            timeout_seconds=30,
            term_seconds=self.leases.term_seconds,
            input='{"n": 1}',
        )

    def reply(self, lease: Lease, kind: str, claim_id: str = "", **fields: Any) -> None:
        """Answer a command of a run, or end the run."""
        reply = Reply(lease.job_id, lease.epoch, claim_id, kind, **fields)  # type: ignore[arg-type]
        self.owner.say(messages.Answer(lease.home_partition, reply))

    def acknowledge(self) -> None:
        """Acknowledge everything, and be silent no more."""
        self.silent = False
        self.owner.acknowledge()

    def event_body(self, event_id: str, body: bytes) -> PayloadRef:
        """Let an event have a body; returns what a lease says of it."""
        self.bodies_of_events[event_id] = body
        return PayloadRef(2, (100,), len(body), "key_1")

    def commands(self) -> list[tuple[int, Command]]:
        """Every command sent so far, with its partition."""
        return [(order.partition, _command(order)) for order in self.owner.of(Order)]

    def bodies(self, kind: type[B]) -> list[B]:
        return [c.body for _, c in self.commands() if isinstance(c.body, kind)]

    def heartbeats(self, partition: int) -> list[Command]:
        return [c for p, c in self.commands() if p == partition and isinstance(c.body, Heartbeat)]

    async def until(self, condition: Callable[[], B | None], what: str) -> B:
        """The condition's first true value; asked again after everything that is sent."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not (value := condition()):
                    self._news.clear()
                    await self._news.wait()
                return value
        except TimeoutError:
            raise AssertionError(f"not within {PATIENCE_SECONDS:g} s: {what}") from None

    async def ended(self, lease: Lease) -> Ended:
        """How the run of a lease ended."""
        return await self.until(lambda: self._last(Ended, lease), f"Ended of {lease.type}")

    async def declined(self, lease: Lease) -> Declined:
        return await self.until(lambda: self._last(Declined, lease), f"Declined of {lease.type}")

    async def outcome(self, lease: Lease) -> Outcome:
        return await self.until(lambda: self._last(Outcome, lease), f"Outcome in {lease.type}")

    async def idle(self) -> None:
        """Every run is over, and what it had to say is said."""
        await self.idle_but(0)

    async def idle_but(self, running: int) -> None:
        """So many runs are left."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(self.worker.executor.running) > running:
                await asyncio.wait(set(self.worker.executor.running), return_when="FIRST_COMPLETED")

    def _last(self, kind: type[B], lease: Lease) -> B | None:
        found = [c.body for _, c in self.commands() if c.job_id == lease.job_id]
        return next((body for body in reversed(found) if isinstance(body, kind)), None)

    def _heard(self, message: FromWorker) -> None:
        self._loop.call_soon_threadsafe(self._news.set)
        match message:
            case Order() if self.late:
                self.late -= 1
                self._loop.call_soon_threadsafe(
                    self._loop.call_later, LATE_SECONDS, self._process, message
                )
            case Order() if not self.silent:
                self._process(message)
            case Body() | Seal() | Unseal() | Live() | Progress() | Announce():
                self._request(message)

    def _request(self, asked: Body | Seal | Unseal | Live | Progress | Announce) -> None:
        if self.slow_requests:
            later = partial(self._loop.call_later, LATE_SECONDS, self.owner.say)
            self._loop.call_soon_threadsafe(later, self._result(asked))
        else:
            self.owner.say(self._result(asked))

    def _process(self, order: Order) -> None:
        """Answer a command, and acknowledge it."""
        if self.silent:
            return
        command = _command(order)
        if isinstance(command.body, Claim | ClaimStep):
            fields = self.answer(command.body)
            if fields:
                place = command.job_id, command.epoch, command.body.claim_id
                self.owner.say(messages.Answer(order.partition, Reply(*place, **fields)))
        self.owner.say(Acked({order.partition: order.number}))

    def _result(
        self, asked: Body | Seal | Unseal | Live | Progress | Announce
    ) -> Piece | Done | Failed:
        match asked:
            case Body(request=request):
                return self._body(asked)
            case Seal(request=request, place=place, text=text):
                return Done(request, sealed=Sealed("key_1", f"{place}\0{text}".encode()))
            case Unseal(request=request, place=place, sealed=sealed):
                bound, _, text = sealed.data.decode().partition("\0")
                if bound != place:
                    return Failed(request, f"cannot open {place}", True)
                return Done(request, text=text)
        return Done(asked.request)

    def _body(self, asked: Body) -> Piece | Failed:
        lease = self._given[asked.job_id]
        event = lease.event if asked.index is None else lease.events[asked.index].event
        key = asked.wait or (event.event_id if event else "")
        if self.passing_failure:
            return Failed(asked.request, self.passing_failure, False)
        if key not in self.bodies_of_events:
            return Failed(asked.request, f"the body of {key} is gone", True)
        return Piece(asked.request, self.bodies_of_events[key], True)


def _command(order: Order) -> Command:
    return commands.command(encoded(order), 0)


@asynccontextmanager
async def bench(
    app: App,
    *,
    slots: int = 20,
    leases: LeasePolicy | None = None,
    answer: Answer = granted,
    clock: Callable[[], float] = time.monotonic,
) -> AsyncIterator[Bench]:
    """A started worker that an owner of all partitions has taken in."""
    made = Bench(app, slots, leases or LeasePolicy(), answer, clock)
    made.worker.start()
    looking = asyncio.create_task(_gives_up(made.worker.link))
    with plain_logs():
        yield made
        await made.worker.drain(0)
    looking.cancel()
    made.owner.on_message = _nobody  # A thread may still have a last word; the loop ends now.


async def _gives_up(link: Link) -> None:
    """Beats are the test's own; only what is too late is let go of."""
    while True:
        link.give_up()
        await asyncio.sleep(0.01)


def _nobody(_: FromWorker) -> None: ...
