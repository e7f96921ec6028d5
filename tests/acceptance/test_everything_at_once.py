"""Faults of processes and of the broker in any order, also several at a time (G1, G6, G8)."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.dedup_under_load import DedupUnderLoad
from support.fault_points import STEPS
from support.faulty_process import FaultyProcess
from support.kafka_under_test import KafkaUnderTest

from streams.broker.embedded import EmbeddedKafka

pytestmark = [pytest.mark.broker, pytest.mark.chaos]

NAMES = "012"
TURNS = 40
LONGEST_PAUSE = 4.0


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(tmp_path / "kafka") as running:
        yield running


@pytest.fixture
def dedup(broker: EmbeddedKafka, tmp_path: Path) -> Iterator[DedupUnderLoad]:
    kafka = KafkaUnderTest(broker.bootstrap, broker.client_settings, broker)
    with DedupUnderLoad(kafka, tmp_path) as running:
        yield running


class Members:
    """The instances of dedup, and what may happen to them."""

    def __init__(self, dedup: DedupUnderLoad) -> None:
        self._dedup = dedup
        self._running: dict[str, FaultyProcess] = {}
        self.struck = 0

    def start(self, name: str) -> str:
        self._running[name] = self._dedup.start(name)
        return "start"

    def any_fault(self) -> str:
        name = self._dedup.random.choice(NAMES)
        process = self._running.get(name)
        if process is None or not process.alive:
            return f"{name}: {self.start(name)}"
        faults = [self._kill, self._kill_and_wipe, self._stop, self._arm, self._freeze, self._wake]
        return f"{name}: {self._dedup.random.choice(faults)(name, process)}"

    def go_on(self) -> None:
        """End every fault, and start what is not there."""
        for name, process in list(self._running.items()):
            process.points.disarm()
            process.signal(signal.SIGCONT)
            if not process.alive:
                self.start(name)

    def _kill(self, name: str, process: FaultyProcess) -> str:
        place = process.points.now
        self.struck += bool(place.in_flight)
        process.kill()
        return f"SIGKILL {place}"

    def _kill_and_wipe(self, name: str, process: FaultyProcess) -> str:
        told = self._kill(name, process)
        self._dedup.wipe(instance=name)
        return f"{told}, state wiped"

    def _stop(self, name: str, process: FaultyProcess) -> str:
        place = process.points.now
        process.signal(signal.SIGCONT)
        process.stop()
        return f"SIGTERM {place}"

    def _arm(self, name: str, process: FaultyProcess) -> str:
        step = self._dedup.random.choice(STEPS)
        number = self._dedup.random.choice([signal.SIGKILL, signal.SIGSTOP])
        process.points.arm(step, number)
        return f"{number.name} armed {step}"

    def _freeze(self, name: str, process: FaultyProcess) -> str:
        process.signal(signal.SIGSTOP)
        return f"SIGSTOP {process.points.now}"

    def _wake(self, name: str, process: FaultyProcess) -> str:
        process.signal(signal.SIGCONT)
        return "SIGCONT"


def broker_fault(broker: EmbeddedKafka, dedup: DedupUnderLoad) -> str:
    if dedup.random.random() < 0.5:
        broker.kill()
        broker.start()
        return "broker killed and started"
    seconds = dedup.random.uniform(0.5, 14)
    pid = broker.pid or 0
    os.kill(pid, signal.SIGSTOP)
    dedup.flood.wait(seconds)
    os.kill(pid, signal.SIGCONT)
    return f"broker frozen for {seconds:.1f} s"


def test_everything_at_once(broker: EmbeddedKafka, dedup: DedupUnderLoad) -> None:
    members = Members(dedup)
    for name in NAMES:
        members.start(name)
    dedup.await_recovery("start")
    for _ in range(TURNS):
        of_broker = dedup.random.random() < 0.15
        print(broker_fault(broker, dedup) if of_broker else members.any_fault())
        dedup.flood.wait(dedup.random.uniform(0, LONGEST_PAUSE))
    members.go_on()
    dedup.await_recovery("everything at once")
    assert members.struck, "no kill met records in flight"
    assert dedup.verdict() == []
    ended = [process.lines for process in dedup.processes if process.exit_code() > 0]
    assert not ended, "a process gave up by itself:\n" + "\n".join(ended[0][-20:])
