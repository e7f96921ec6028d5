"""The link of a stage: commands of workers come in without a topic, and answers go out without one.

A command enters a step as a record of the logical topic `link`, with `NO_OFFSET`; its key is the
worker's id. What a processor forwards to `link` under a worker's id is handed to that worker once
the transaction is committed. Nothing of either is written to Kafka.

So a command is durable only by what it changed. The worker keeps each command until a commit holds
it, and sends it again if none does. A task that was given commands always commits, also if they
changed nothing: so an acknowledgement proves that the process still owned the partition after it
had read the command.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Protocol

from streams.runtime.context import Output
from streams.runtime.processor import Record
from streams.serde.records import Handler
from streams.state.overlay import Overlay

LINK = "link"
"""The logical topic of the link. No topology declares it."""


@dataclass(frozen=True, slots=True)
class Rights:
    """What a worker's token allows: tenants, and names or globs of pools and types; None: each."""

    tenants: frozenset[str] | None = None
    pools: tuple[str, ...] | None = None
    job_types: tuple[str, ...] | None = None

    def allows_pool(self, pool: str) -> bool:
        """Whether the worker may take work of a pool."""
        return _is_one_of(self.pools, pool)

    def allows_type(self, type_: str) -> bool:
        """Whether the worker may run jobs of a type."""
        return _is_one_of(self.job_types, type_)


def _is_one_of(patterns: Sequence[str] | None, name: str) -> bool:
    return patterns is None or any(fnmatchcase(name, pattern) for pattern in patterns)


class Workers(Protocol):
    """The workers that are connected to this process: its stage follows them.

    It is one for all partitions, and it is called in the stage's thread alone, between two steps.
    """

    def connected(
        self,
        worker_id: str,
        pool: str,
        handlers: Sequence[Handler],
        rights: Rights,
    ) -> None:
        """A worker is connected, with the rights of its token."""

    def heard(self, worker_id: str, beat: int, limit: int, draining: bool, now: float) -> None:
        """A beat of a connected worker was read at `now`, seconds of `Clock.monotonic`.

        `limit` is how many leases this process may have sent it in all since it was connected.
        """

    def gone(self, worker_id: str) -> None:
        """A worker's connection has ended. This ends no lease."""


class Link(Protocol):
    """The stage's end of the link of its process; it is called in the stage's thread alone.

    It lives as long as the process, so that a new process begins with no worker connected.
    """

    @property
    def connected(self) -> bool:
        """Whether a worker is connected, so that commands may come at any time."""

    @property
    def waiting(self) -> bool:
        """Whether there is something to `take`: commands, or news for the roster."""

    def wait(self, seconds: float) -> None:
        """Wait until there is something to take, at most for so long."""

    @property
    def stirred(self) -> bool:
        """Whether the last `take` told the roster something: waiting jobs may find a worker."""

    def take(self, now: int, /) -> list[Record]:
        """Take commands to process, in the order of each worker; a bounded number.

        Their time is `now`, in milliseconds of the broker's clock. The roster is brought up to date
        first. What was taken is in flight until `committed`, `again` or `owned` says what became of
        it.
        """

    def caught_up_to(self, moment: float) -> bool:
        """Whether all commands that had come by monotonic `moment` were taken.

        They had not if the process was frozen, or is behind.
        """

    def committed(self, records: Sequence[Record], outputs: Sequence[Record]) -> None:
        """Hand out these outputs, then acknowledge these records, which were taken: both are true.

        `records` are, of each partition, the first that are in flight.
        """

    def again(self) -> None:
        """Nothing that is in flight was committed: give it out again, in its order."""

    def owned(self, partitions: Collection[int]) -> None:
        """Only these partitions have a task now; commands for all others are dropped.

        They are not acknowledged, so their workers send them to the next owner. Call it without a
        partition before it is restored again, too: then nothing is known of its commands in flight.
        """

    def close(self) -> None:
        """End every connection: the process ends."""


class LinkService(Protocol):
    """What serves a link beside its stage, in threads of its own."""

    @property
    def link(self) -> Link:
        """The stage's end of it."""

    def start(self, failed: Callable[[Exception], None]) -> None:
        """Begin to serve; `failed` is called, in any thread, if the process must end.

        Raises:
            ConfigError: it cannot be served where the settings say.
        """

    def opened(self, partition: int, stores: Mapping[str, Overlay]) -> None:
        """A partition has a task now. What is committed may be read in any thread until `closing`.

        Like the next calls, this one is made in the stage's thread.
        """

    def closing(self, partition: int) -> None:
        """The stores of a partition are closed next."""

    def stop(self) -> None:
        """End every connection, and all that serves them."""


class _Committed(Protocol):
    """A task whose transaction is committed."""

    @property
    def commands(self) -> Sequence[Record]: ...

    @property
    def outputs(self) -> Sequence[Output]: ...


def handing_out(link: Link | None, tasks: Iterable[_Committed]) -> Callable[[], None]:
    """Collect what a transaction of these tasks has made true; the result tells the link.

    Call that once the stores hold it, too: with a lease in its hand a worker asks for the body of
    its event at once, and is answered from them.
    """
    if link is None:
        return _nothing
    tasks = list(tasks)
    commands = [record for task in tasks for record in task.commands]
    outputs = [o for task in tasks for t, _, own in task.outputs if t == LINK for o in own]
    if not commands and not outputs:
        return _nothing
    return lambda: link.committed(commands, outputs)


def _nothing() -> None:
    """What is left to tell if nothing concerns the link."""
