"""A stage with a link on a real broker: what a worker is told over its socket is committed."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.counting import counting_topology
from support.faulty_process import FaultyProcess
from support.kafka_under_test import KafkaUnderTest
from support.link_services import Client, dialed
from support.linked_workers import boot, hello, order
from support.stage_process import Cluster

from streams.serde.link.messages import Acked, FromOwner, Owned, Wanted, Welcome

pytestmark = pytest.mark.broker


@pytest.fixture
def cluster(kafka: KafkaUnderTest) -> Cluster:
    made = Cluster(kafka, counting_topology())
    made.create()
    return made


@contextmanager
def owner(cluster: Cluster, folder: Path, name: str) -> Iterator[FaultyProcess]:
    """A process that owns both partitions, or will; several have one name in the group."""
    running = FaultyProcess("linked_process", folder / name, cluster.environ(folder / f"{name}-d"))
    try:
        running.wait_for("link listens")
        yield running
    finally:
        running.kill()
        print(running.lines)


def port(process: FaultyProcess) -> int:
    return int(process.said("link listens")["port"])


async def greeted(worker: Client, boot_: str) -> str:
    """Say hello and wait until both partitions are owned; the worker's id."""
    await worker.send(hello("w1", boot_))
    welcome = await worker.next()
    assert isinstance(welcome, Welcome)
    if welcome.owned != (0, 1):
        await worker.until(lambda message: message == Owned((0, 1)))
    return welcome.worker_id


async def test_a_command_is_committed_before_it_is_acknowledged(
    cluster: Cluster, tmp_path: Path
) -> None:
    with owner(cluster, tmp_path, "a") as process:
        async with dialed(port(process)) as worker, asyncio.timeout(120):
            who = (await greeted(worker, boot())).encode()
            await worker.send(order(0, 1), order(1, 1), order(0, 2))
            await told(worker, {0: 2, 1: 1})
        assert cluster.pairs("out") == [(who, b"1"), (who, b"2"), (who, b"1")]
        assert await asyncio.to_thread(process.stop) == 0


@pytest.mark.fault
async def test_a_command_that_no_commit_holds_is_neither_answered_nor_acknowledged(
    cluster: Cluster, tmp_path: Path
) -> None:
    same = boot()
    with owner(cluster, tmp_path, "a") as process:
        async with dialed(port(process)) as worker, asyncio.timeout(120):
            await greeted(worker, same)
            process.points.arm("before_commit", signal.SIGKILL)
            await worker.send(order(0, 1))
            assert await worker.next() is None
        await asyncio.to_thread(process.await_fault, "before_commit", signal.SIGKILL)
    with owner(cluster, tmp_path, "b") as heir:
        async with dialed(port(heir)) as worker, asyncio.timeout(120):
            who = (await greeted(worker, same)).encode()
            await worker.send(order(0, 2))
            await told(worker, {0: 2})
    assert cluster.pairs("out") == [(who, b"1")]


@pytest.mark.fault
async def test_an_owner_that_was_frozen_acknowledges_nothing_when_it_wakes(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Another process has its place by then, so its commit is refused."""
    same = boot()
    with owner(cluster, tmp_path, "a") as frozen:
        async with dialed(port(frozen)) as old, asyncio.timeout(240):
            await told_to_freeze(old, frozen, same)
            with owner(cluster, tmp_path, "b") as heir:
                async with dialed(port(heir)) as new:
                    await greeted(new, same)
                    await new.send(order(0, 2))
                    await told(new, {0: 2})
                frozen.signal(signal.SIGCONT)
                left = [message async for message in rest(old)]
    assert not [message for message in left if isinstance(message, Acked | Wanted)]
    assert [value for _, value in cluster.pairs("out")] == [b"1"]


async def told_to_freeze(worker: Client, process: FaultyProcess, boot_: str) -> None:
    """Stop a process between the reading of a command and its commit."""
    await greeted(worker, boot_)
    process.points.arm("before_commit", signal.SIGSTOP)
    await worker.send(order(0, 1))
    await asyncio.to_thread(process.await_fault, "before_commit", signal.SIGSTOP)


async def told(worker: Client, numbers: dict[int, int]) -> None:
    """Wait until these commands are acknowledged, after their answers."""
    answers, found = 0, dict[int, int]()
    while found != numbers:
        message = await worker.next()
        assert message is not None
        answers += message == Wanted()
        found |= message.numbers if isinstance(message, Acked) else {}
    assert answers > 0


async def rest(worker: Client) -> AsyncIterator[FromOwner]:
    """What comes until the end of a connection."""
    while (message := await worker.next()) is not None:
        yield message
