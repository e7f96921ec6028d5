"""A stage of two inputs on a real broker, while its partitions move between processes."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.conditions import eventually
from support.counting import counting_topology
from support.faulty_process import FaultyProcess
from support.group_progress import GroupProgress
from support.stage_process import Cluster

pytestmark = [pytest.mark.broker, pytest.mark.fault]

PARTITIONS = 4
INPUTS = ("in", "more")
ROUND = 500
"""Records by partition and input."""

Start = Callable[[str], FaultyProcess]


@pytest.fixture
def cluster(kafka: Any) -> Cluster:
    created = Cluster(kafka, counting_topology(PARTITIONS, INPUTS))
    created.create()
    return created


@pytest.fixture
def start(cluster: Cluster, tmp_path: Path) -> Iterator[Start]:
    """Starts a process under that name, each with a disk of its own."""
    running: list[FaultyProcess] = []

    def start_(name: str) -> FaultyProcess:
        settings = cluster.environ(tmp_path / name, name)
        settings |= {"PARTITIONS": str(PARTITIONS), "INPUTS": " ".join(INPUTS)}
        log = tmp_path / f"{name}-{len(running)}.log"
        running.append(FaultyProcess("counting_stage", log, settings))
        return running[-1]

    yield start_
    for process in running:
        process.kill()
        print(process.lines)


class Sent:
    """What was sent: keys that each come once, so that each must be counted to one."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._rounds = 0
        self._expected: Counter[tuple[bytes, bytes]] = Counter()

    def another_round(self) -> None:
        self._rounds += 1
        for topic in INPUTS:
            for partition in range(PARTITIONS):
                name = f"{topic}-{partition}-{self._rounds}".encode()
                keys = [b"%s-%d" % (name, n) for n in range(ROUND)]
                self._cluster.send(topic, [(key, b"count") for key in keys], partition)
                self._expected.update((key, b"1") for key in keys)

    def await_counts(self) -> None:
        """Wait until all input is committed, and see that each key was counted once."""
        for topic in INPUTS:
            progress = GroupProgress(self._cluster, "counting", topic)
            assert progress.await_end() == {}, topic
            progress.close()
        assert Counter(self._cluster.pairs("out")) == self._expected


def test_the_second_inputs_partitions_follow_those_of_the_first(
    cluster: Cluster, start: Start
) -> None:
    sent = Sent(cluster)
    first = start("0")
    sent.another_round()
    sent.await_counts()
    sent.another_round()
    second = start("1")
    sent.another_round()
    eventually(lambda: len(first.share) == len(second.share) == 2, what="two shares")
    sent.await_counts()
    first.points.arm("before_commit", signal.SIGKILL)
    sent.another_round()
    first.await_fault("before_commit", signal.SIGKILL)
    sent.another_round()
    eventually(lambda: len(second.share) == PARTITIONS, what="the second has them all")
    sent.await_counts()
    sent.another_round()
    again = start("0")
    eventually(lambda: len(again.share) == len(second.share) == 2, what="two shares again")
    sent.another_round()
    assert again.stop() == 0
    eventually(lambda: len(second.share) == PARTITIONS, what="what it lost comes back")
    sent.await_counts()
