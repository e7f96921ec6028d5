"""A fused stage on a real broker reads of its own topics only what it did not take in memory."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.conditions import eventually
from support.counting import fused_topology
from support.faulty_process import FaultyProcess
from support.group_progress import GroupProgress
from support.stage_process import Cluster

pytestmark = [pytest.mark.broker, pytest.mark.fault]

COUNT = (b"a", b"count")
READ = "tidegate_stage_records_total"


@pytest.fixture
def cluster(kafka: Any) -> Cluster:
    return Cluster(kafka, fused_topology())


@pytest.fixture
def start(cluster: Cluster, tmp_path: Path) -> Iterator[Callable[[], FaultyProcess]]:
    running: list[FaultyProcess] = []

    def start_() -> FaultyProcess:
        settings = {**cluster.environ(tmp_path / "data"), "STAGE": "fused"}
        log = tmp_path / f"{len(running)}.log"
        running.append(FaultyProcess("counting_stage", log, settings))
        return running[-1]

    yield start_
    for process in running:
        process.kill()


def await_counts(cluster: Cluster, number: int) -> None:
    expected = [(b"a", b"%d" % n) for n in range(1, number + 1)]
    eventually(lambda: cluster.pairs("out") == expected, what=f"{number} are counted once")


def await_end(cluster: Cluster, progress: GroupProgress) -> None:
    """Wait until all that was written to `in` is committed, but for the mark behind it."""
    last = cluster.ends("in")[0] - 1
    eventually(lambda: progress.committed()[0] >= last, what="positions pass what was taken")


def test_what_was_taken_is_not_read_and_all_else_is(
    cluster: Cluster, start: Callable[[], FaultyProcess]
) -> None:
    cluster.create()
    process = start()
    with closing(GroupProgress(cluster, "both", "in")) as progress:
        for sent in range(10, 60, 10):
            cluster.send("raw", [COUNT] * 10)
            await_counts(cluster, sent)
        await_end(cluster, progress)
        assert process.metric(READ) == 50, "its own records are read back"
        cluster.send("in", [COUNT])
        await_counts(cluster, 51)
        cluster.send("raw", [COUNT])
        cluster.send("in", [COUNT] * 2)
        cluster.send("raw", [COUNT])
        await_counts(cluster, 55)
        cluster.send("raw", [(b"a", b"poison"), COUNT])
        await_counts(cluster, 56)
        await_end(cluster, progress)
    assert len(cluster.read("dlq")) == 1


def test_each_is_counted_once_across_sigkill(
    cluster: Cluster, start: Callable[[], FaultyProcess]
) -> None:
    cluster.create()
    process, sent = start(), 0
    for step in ("before_commit", "after_commit"):
        cluster.send("raw", [COUNT])
        await_counts(cluster, sent + 1)
        process.points.arm(step, signal.SIGKILL)
        cluster.send("raw", [COUNT] * 5)
        process.await_fault(step, signal.SIGKILL)
        cluster.send("in", [COUNT])
        process, sent = start(), sent + 7
        await_counts(cluster, sent)
