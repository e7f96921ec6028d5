"""The process of a worker in `link_world`: its core of the link under runs of a few calls."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from uuid_utils import uuid7

from streams.errors import LeaseLost
from streams.serde.records import Claim, Command, CommandBody, Ended, Handler, Outcome, Reply
from streams.worker.lease.held_leases import Held, HeldLeases
from streams.worker.link.identity import Identity
from streams.worker.link.link import Link
from support.link_world_owner import tag_of

if TYPE_CHECKING:
    from support.link_world import World
    from support.link_world_wire import Wire

SLOTS = 3
_CALLS = 2


@dataclass(eq=False)
class Run:
    """One run: `begun` are its calls so far, and `posted` the tags of its commands, in order."""

    held: Held
    begun: int = 0
    asked: str = ""
    posted: list[str] = field(default_factory=list)
    is_over: bool = False


class WorkerProcess:
    """A worker of some slots."""

    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self.frozen_until = 0.0
        self._world = world
        self.runs: dict[tuple[str, int], Run] = {}
        self.begin()

    def begin(self) -> None:
        """Begin as a new process: of the one before nothing is left but what it had sent."""
        world = self._world
        self.frozen_until = 0.0
        self.runs = {}
        self.open: dict[str, Run] = {}  # commands that are not settled, by tag
        self.answered: dict[str, str] = {}
        self.held_leases = HeldLeases(SLOTS, 5, lambda: world.now)
        handlers = (Handler("job", 5, (1.0,), 300.0),)
        identity = Identity(self.name, str(uuid7()), "default", handlers)
        self.link = Link(identity, self.held_leases, self, lambda: world.now)
        self.link.dials(len(world.owners))

    @property
    def is_awake(self) -> bool:
        return self._world.now >= self.frozen_until

    @property
    def rests(self) -> bool:
        """Whether nothing is left to do or to have acknowledged."""
        return not self.open and all(run.is_over for run in self.runs.values())

    # The link's `Inbox`.

    def leased(self, held: Held) -> None:
        assert held.id not in self.runs, "a lease is taken once"
        assert len(self.held_leases.running()) <= SLOTS
        self.runs[held.id] = Run(held)

    def replied(self, reply: Reply) -> None:
        self.answered[reply.claim_id] = reply.kind

    def failed(self, error: Exception) -> None:
        raise AssertionError(f"nobody else has its name: {error}")

    # What its runs do.

    def tick(self) -> None:
        self.link.tick()

    def act(self) -> None:
        """Let one run do its next act, or notice that its term is over."""
        living = [run for run in self.runs.values() if not run.is_over]
        if not living:
            return
        run = self._world.rng.choice(living)
        if self._world.now >= run.held.valid_until:
            self._leave(run)
            self.held_leases.drop(run.held)
        elif run.asked:
            self._hear(run)
        elif run.begun < _CALLS:
            self._claim(run)
        else:
            self._post(run, Ended(run.held.lease.run_id, "succeeded", "1", None, None, None))
            self._leave(run)

    def _claim(self, run: Run) -> None:
        run.begun += 1
        run.asked = f"{run.held.lease.run_id}.{run.begun}"
        body = Claim(run.asked, run.held.lease.run_id, f"tool/{run.begun}", b"", 0)
        self._post(run, body)

    def _hear(self, run: Run) -> None:
        kind = self.answered.get(run.asked)
        if kind == "granted":
            claim_id, run.asked = run.asked, ""
            self._post(run, Outcome(claim_id, run.held.lease.run_id, "t/k", "done", None, None))
        elif kind is not None:
            self._leave(run)
            self.held_leases.drop(run.held)

    def _leave(self, run: Run) -> None:
        run.is_over = True
        self.held_leases.vacate(run.held)
        self.link.tell()

    def _post(self, run: Run, body: CommandBody) -> None:
        lease, held = run.held.lease, run.held
        command = Command("", lease.tenant_id, lease.job_id, lease.epoch, 0, body)
        tag = tag_of(command)
        run.posted.append(tag)
        self.open[tag] = run
        late = held.expires_at + 600

        def settled(error: Exception | None) -> None:
            del self.open[tag]
            self._settled(run, tag, error)

        def until() -> float:
            return late if isinstance(body, Outcome) else held.valid_until

        self.link.post(lease.home_partition, command, until, settled)

    def _settled(self, run: Run, tag: str, error: Exception | None) -> None:
        if error is not None:
            assert isinstance(error, LeaseLost)
            assert self._world.now >= run.held.valid_until, "it is given up in time"
        else:
            assert tag in self._world.committed.tags, f"{tag} is acknowledged before its commit"
            kind, _, claim_id = tag.partition(" ")
            assert kind != "Claim" or claim_id in self.answered, "the answer comes before"
        if tag.startswith("Ended"):
            self.held_leases.drop(run.held)

    # What must hold.

    def check_term(self, job_id: str, epoch: int, until: float) -> None:
        """No run counts on its lease for longer than its owner does."""
        run = self.runs.get((job_id, epoch))
        if run is not None and not run.is_over:
            assert run.held.expires_at <= until, f"{run.held.id} has too long a term"

    def check_over(self, job_id: str, epoch: int) -> None:
        """No run of a job goes on when another one is leased; its commands are in their order."""
        for run in self.runs.values():
            lease = run.held.lease
            if lease.job_id != job_id or lease.epoch >= epoch:
                continue
            left = run.is_over or self._world.now >= run.held.expires_at
            assert left, f"{run.held.id} goes on, and its job is leased again"

    def check_rest(self, wires: list[Wire]) -> None:
        """All is acknowledged or given up; each slot is offered to one owner, and used by none."""
        assert self.rests, f"never acknowledged: {sorted(self.open)}"
        log = {job.job_id: job.log for jobs in self._world.committed.jobs for job in jobs.values()}
        for run in self.runs.values():
            own = [tag for tag in log[run.held.lease.job_id] if tag in run.posted]
            assert own == run.posted[: len(own)], "commands are skipped, or out of order"
        offered = 0
        for wire in wires:
            view = wire.owner.views[wire.far.peer.worker_id]
            assert view.limit == sum(self.held_leases.tell(wire)), (
                "the owner knows the newest limit"
            )
            offered += view.limit - view.sent
        assert offered == SLOTS, f"{offered} of {SLOTS} slots are offered"
