"""Maps each kind of command to the method that applies it."""

from __future__ import annotations

from dataclasses import replace

from streams.dispatcher import settling
from streams.dispatcher.events import Events
from streams.dispatcher.lifecycle import Lifecycle
from streams.dispatcher.operator_commands import Requests
from streams.dispatcher.replays import Replays
from streams.dispatcher.undeclared_workers import Strangers
from streams.dispatcher.worker_registry import WorkerRegistry
from streams.dispatcher.worker_reports import Runs
from streams.errors import PoisonRecord
from streams.serde.records import (
    Cancel,
    Checkpoint,
    Claim,
    Command,
    Declined,
    Ended,
    Heartbeat,
    Job,
    Move,
    Outcome,
    Replay,
    ReplayEvent,
    Reroute,
    Settle,
    Submit,
    Wake,
)
from streams.topology.model import Topology


class Commands:
    """Applies the commands of one step. `parked` holds the jobs for which a command waits.

    `routing` is the digest of the topology's routing (`rerouting`).

    A command's time is that of its record, at which the broker took it, in milliseconds. A parked
    command is applied with the time of its own record, not of the one that creates its job.
    """

    def __init__(
        self,
        life: Lifecycle,
        registry: WorkerRegistry,
        topology: Topology,
        routing: bytes,
        parked: set[str],
        strangers: Strangers,
    ) -> None:
        self._store = life.store
        self._life = life
        self._policy = topology.leases
        self._parked = parked
        self.events = Events(life, topology, routing, self.admit)
        self._requests = Requests(life, registry, topology, self.admit)
        self._replays = Replays(life, topology, self.admit)
        self._runs = Runs(life, registry, topology, strangers)

    def apply(self, command: Command, at: int) -> None:
        """Apply a command; `at` is the time of its record.

        Raises:
            PoisonRecord: the command can never be applied; nothing was changed.
        """
        match command.body:
            case Submit() as body:
                self._requests.submit(command, body, at)
            case Replay() as body:
                self._replays.replay(command, body, at)
            case ReplayEvent() as body:
                self._replays.replay_event(command, body, at)
            case Cancel() as body:
                self._cancel(command, body, at)
            case Wake() as body:
                self._requests.wake(command, body)
            case Move() as body:
                self._requests.move(command, body)
            case Settle() as body:
                settling.settle(self._life, command, body, self._policy, at)
            case Reroute() as body:
                self.events.reroute(command, body, at)
            case _:
                self._from_worker(command)

    def admit(self, job: Job) -> None:
        """Let a new job in, and apply the commands that overtook it."""
        self._life.enter(job)
        if job.job_id in self._parked:
            self._parked.discard(job.job_id)
            self._life.run_queue.touch(job.job_id)
            for command in self._store.unpark(job.job_id):
                if command.tenant_id == job.tenant_id:
                    self.apply(command, command.at)

    def _cancel(self, command: Command, body: Cancel, at: int) -> None:
        if not self._requests.cancel(command, body, at):
            self._store.park(replace(command, at=at))
            self._parked.add(command.job_id)
            self._life.run_queue.touch(command.job_id)

    def _from_worker(self, command: Command) -> None:
        match command.body:
            case Heartbeat() as body:
                self._runs.heartbeat(command, body)
            case Claim() as body:
                self._runs.claim(command, body)
            case Outcome() as body:
                self._runs.outcome(command, body)
            case Checkpoint() as body:
                self._runs.checkpoint(command, body)
            case Ended() as body:
                self._runs.ended(command, body)
            case Declined() as body:
                self._runs.declined(command, body)
            case _:
                raise PoisonRecord("not_supported", f"{type(command.body).__name__} is not known")
