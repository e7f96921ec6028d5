"""A worker's link alone: a test plays its owners, its handlers and its clock."""

from __future__ import annotations

from streams.errors import LeaseLost
from streams.serde.records import Claim, Command, CommandBody, Handler, Outcome, Reply
from streams.worker.lease.held_leases import Held, HeldLeases
from streams.worker.link.identity import Identity
from streams.worker.link.link import Link
from support.scripted_owner import ScriptedOwner

HANDLERS = (Handler("job", 5, (1.0,), 300.0),)


class LinkedWorker:
    """The link of a worker of some slots, and what it was told."""

    def __init__(self, slots: int = 4, boot: str = "boot") -> None:
        self.now = 1_000.0
        self.held_leases = HeldLeases(slots, 5, lambda: self.now)
        identity = Identity("w1", boot, "default", HANDLERS)
        self.link = Link(identity, self.held_leases, self, lambda: self.now)
        self.begun: list[Held] = []
        self.replies: list[Reply] = []
        self.failures: list[Exception] = []
        self.settled: list[tuple[str, Exception | None]] = []

    def leased(self, held: Held) -> None:
        self.begun.append(held)

    def replied(self, reply: Reply) -> None:
        self.replies.append(reply)

    def failed(self, error: Exception) -> None:
        self.failures.append(error)

    def owner(self, name: str, *owned: int) -> ScriptedOwner:
        """An owner that takes this worker in."""
        return ScriptedOwner(self.link, name).open(*owned)

    def claim(self, name: str, partition: int = 0, seconds: float = 25.0) -> None:
        """Send a claim that is worth something for so long."""
        body = Claim(name, "run_1", f"tool/{name}", b"", 0)
        self._post(name, partition, body, seconds)

    def outcome(self, name: str, partition: int = 0, seconds: float = 625.0) -> None:
        """Send an outcome."""
        self._post(name, partition, Outcome(name, "run_1", "tool/x", "done", None, None), seconds)

    def lost(self) -> list[str]:
        """What was given up."""
        return [name for name, error in self.settled if isinstance(error, LeaseLost)]

    def done(self) -> list[str]:
        """What was acknowledged, in this order."""
        return [name for name, error in self.settled if error is None]

    def pass_time(self, seconds: float) -> None:
        """Let time pass at once, and look what is due then."""
        self.now += seconds
        self.link.tick()

    def _post(self, name: str, partition: int, body: CommandBody, seconds: float) -> None:
        until = self.now + seconds
        command = Command("", "acme", "job_1", 1, 0, body)
        told = lambda error: self.settled.append((name, error))  # noqa: E731
        self.link.post(partition, command, lambda: until, told)
