"""Owners and workers at random: nothing is acknowledged too soon, lost, repeated or leaked."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence

import pytest
from support.link_world import World
from support.link_world_owner import OwnerProcess, Step

from streams.link.inboxes import Inboxes
from streams.link.owner import Owner
from streams.link.peer import Peer
from streams.runtime.processor import Record
from streams.serde.link.messages import Order
from streams.serde.records import HeldLease
from streams.worker.lease.credits import Credits, Source
from streams.worker.lease.held_leases import Held, HeldLeases
from streams.worker.link.outbox import Outbox, Waiting


def play(*seeds: int) -> None:
    for seed in seeds:
        World(seed, owners=2 + seed % 2, workers=1 + seed % 3).run(1_500)


@pytest.mark.parametrize("seed", range(20))
def test_whatever_happens_between_owners_and_workers(seed: int) -> None:
    play(seed)


Plant = Callable[[pytest.MonkeyPatch], None]


def acknowledged_before_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    end = OwnerProcess.end

    def early(self: OwnerProcess, step: Step, taken: Sequence[Record], outcome: str) -> None:
        self.core.committed(taken, step.outputs)
        end(self, step, taken, outcome)

    monkeypatch.setattr(OwnerProcess, "end", early)


def terms_extended_by_a_zombie(monkeypatch: pytest.MonkeyPatch) -> None:
    """It acknowledges heartbeats that no commit follows."""
    end = OwnerProcess.end

    def zombie(self: OwnerProcess, step: Step, taken: Sequence[Record], outcome: str) -> None:
        beats = [record for record in taken if b'"heartbeat"' in (record.value or b"")]
        if outcome != "done":
            self.core.committed(beats, [])
        end(self, step, taken, outcome)

    monkeypatch.setattr(OwnerProcess, "end", zombie)


def terms_from_their_acknowledgement(monkeypatch: pytest.MonkeyPatch) -> None:
    renew = HeldLeases.renew

    def late(
        self: HeldLeases, leases: Iterable[Held], sent_at: float, told: Iterable[HeldLease]
    ) -> None:
        renew(self, leases, self._clock(), told)

    monkeypatch.setattr(HeldLeases, "renew", late)


def a_command_lost_at_reconnect(monkeypatch: pytest.MonkeyPatch) -> None:
    take = Outbox.take
    monkeypatch.setattr(Outbox, "take", lambda self, partition: take(self, partition)[1:])


def copies_under_their_former_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """To an owner that goes on with a connection of which it has dropped commands."""

    def put(self: Outbox, waiting: Waiting) -> Order:
        self._waiting.setdefault(waiting.order.partition, deque()).append(waiting)
        return waiting.order

    monkeypatch.setattr(Outbox, "put", put)
    monkeypatch.setattr(Peer, "lost", property(lambda _: set(), lambda *_: None), raising=False)


def an_abort_that_turns_the_order_around(monkeypatch: pytest.MonkeyPatch) -> None:
    def again(self: Inboxes) -> None:
        for waiting in self._in_flight.values():
            if not waiting.peer.waiting:
                self._turns.appendleft(waiting.peer)
            waiting.peer.waiting.appendleft(waiting)
        self._in_flight = {}

    monkeypatch.setattr(Inboxes, "again", again)


def an_abort_that_loses_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Inboxes, "again", lambda self: self._in_flight.clear())


def commands_of_a_lost_partition_that_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    def drop(self: Inboxes, partitions: Collection[int]) -> None:
        """Keep them."""

    monkeypatch.setattr(Inboxes, "drop", drop)


def acknowledgements_before_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    committed = Owner.committed

    def hasty(self: Owner, records: Sequence[Record], outputs: Sequence[Record]) -> None:
        committed(self, records, ())
        committed(self, (), outputs)

    monkeypatch.setattr(Owner, "committed", hasty)


def slots_of_a_broken_connection_that_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    close = Credits.close

    def leaky(self: Credits, source: Source) -> None:
        self._unused[source] = []
        close(self, source)

    monkeypatch.setattr(Credits, "close", leaky)


def connections_that_outlive_a_tenure(monkeypatch: pytest.MonkeyPatch) -> None:
    """An old heartbeat passes for the introduction of a worker."""
    monkeypatch.setattr(Peer, "lost", property(lambda _: set(), lambda *_: None), raising=False)


def leases_for_a_former_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was decided for it goes to the newest connection of its worker."""
    begin = OwnerProcess.begin

    def confused(self: OwnerProcess) -> None:
        begin(self)
        self.core._roster.known = self.core._connections._latest.get  # type: ignore[assignment,method-assign]

    monkeypatch.setattr(OwnerProcess, "begin", confused)


@pytest.mark.parametrize(
    "plant",
    [
        acknowledged_before_the_commit,
        terms_extended_by_a_zombie,
        terms_from_their_acknowledgement,
        a_command_lost_at_reconnect,
        copies_under_their_former_numbers,
        an_abort_that_turns_the_order_around,
        an_abort_that_loses_commands,
        commands_of_a_lost_partition_that_stay,
        acknowledgements_before_answers,
        slots_of_a_broken_connection_that_are_lost,
        connections_that_outlive_a_tenure,
        leases_for_a_former_connection,
    ],
)
def test_a_planted_fault_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        play(*range(100))
