"""What a worker does about work partitions that its pool's group leaves to nobody."""

from __future__ import annotations

import struct
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest
from support.conditions import eventually

from streams.settings import Settings
from streams.worker.transport import work_reader
from streams.worker.transport.work_reader import WorkReader
from streams.worker.worker import WorkerSpec

SESSION = 10
TOPIC = "jobs.work.default"


class Consumer:
    """A member of the group that is given no records; `mine` are the partitions that it has."""

    def __init__(self, _: Any) -> None:
        self.mine: list[int] = []
        self.subscriptions: list[list[str]] = []

    def poll(self, timeout: float) -> None: ...

    def assignment(self) -> list[Any]:
        return [SimpleNamespace(partition=partition) for partition in self.mine]

    def unsubscribe(self) -> None:
        self.subscriptions.append([])

    def subscribe(self, topics: list[str], **_: Any) -> None:
        self.subscriptions.append(topics)


class Group:
    """The admin client, and the group that it sees: one member has the first partition of two."""

    def __init__(self) -> None:
        self.asked = 0
        self.owned = [0]

    def list_groups(self, group: str, timeout: float) -> list[Any]:
        self.asked += 1
        name, owned = TOPIC.encode(), self.owned
        share = struct.pack(f">hih{len(name)}s", 0, 1, len(name), name)
        share += struct.pack(f">i{len(owned)}i", len(owned), *owned)
        member = SimpleNamespace(assignment=share)
        return [SimpleNamespace(id=group, state="Stable", members=[member])]


class World:
    """A worker's reader, its group, and a clock that only the test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.group = Group()
        self.clients = 0
        inbox: Any = SimpleNamespace(assigned=lambda partition: None)
        replies: Any = SimpleNamespace(follow=lambda partition: True)
        monkeypatch.setattr(work_reader, "Consumer", Consumer)
        monkeypatch.setattr(work_reader, "admin_client", self._client)
        settings = Settings(session_seconds=SESSION)
        self.reader = WorkReader(settings, WorkerSpec("w1"), 2, inbox, replies)
        self.reader._unowned = partial(self.reader._unowned, clock=lambda: self.now)
        self.consumer = cast(Consumer, self.reader._consumer)

    def _client(self, _: Settings) -> Group:
        self.clients += 1
        return self.group

    def share_out(self, *partitions: int) -> None:
        """A rebalance in which the worker gets these partitions."""
        self.consumer.mine = list(partitions)
        self.reader._rebalanced(cast(Any, self.consumer), [])

    def passes(self, seconds: int) -> None:
        """Read for so long; each look at the group gets its answer."""
        for _ in range(seconds):
            self.reader._read()
            look = self.reader._look
            if look is not None and look._answer is not None:
                eventually(look._answer.done, what="the answer is there")
                self.reader._read()
            self.now += 1


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_an_idle_worker_joins_anew_if_partitions_have_no_owner_for_a_session(world: World) -> None:
    world.share_out()
    world.passes(SESSION)
    assert world.consumer.subscriptions == []
    world.passes(1)
    assert world.consumer.subscriptions == [[], [TOPIC]]


def test_an_idle_worker_lets_a_group_be_in_which_every_partition_has_an_owner(
    world: World,
) -> None:
    world.group.owned = [0, 1]
    world.share_out()
    world.passes(3 * SESSION)
    assert (world.group.asked, world.consumer.subscriptions) == (1, [])
    world.group.owned = [0]
    world.share_out()
    world.passes(SESSION + 1)
    assert world.consumer.subscriptions == [[], [TOPIC]]


def test_a_worker_that_has_work_or_waits_for_its_first_share_asks_nothing(world: World) -> None:
    world.passes(3 * SESSION)
    world.share_out(1)
    world.passes(3 * SESSION)
    assert (world.clients, world.consumer.subscriptions) == (0, [])
