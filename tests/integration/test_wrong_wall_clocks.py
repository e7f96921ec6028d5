"""Stages on a real broker decide by its time, whatever their own wall clocks say (G2, G4)."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message
from support.conditions import eventually
from support.counting import counting_topology
from support.played_worker import TOKEN, played_worker
from support.stage_process import Cluster, StageProcess

from streams.broker.ports import pick_free
from streams.errors import ConfigError
from streams.runtime.broker_clock import BrokerClock, broker_clock
from streams.serde.codec import COMMAND, JOB, SCHEDULE
from streams.serde.ids import new_id
from streams.serde.records import (
    Cancel,
    Command,
    CommandBody,
    Schedule,
    Submit,
    Wake,
)
from streams.settings import load_settings
from streams.topology.load import load

pytestmark = pytest.mark.broker

HALF_A_DAY = 12 * 3600
HOUR_MS = 3_600_000
TOPOLOGY = """
partitions: 1
window_days: 0.01
topics:
  - {name: events.received, retention_days: 0.05}
  - {name: events, retention_days: 0.1}
  - {name: duplicates, retention_days: 0.1}
  - {name: jobs.commands, retention_days: 0.05}
  - {name: dlq, retention_days: 0.25}
retention: {finished_jobs_days: 0.25}
"""


@dataclass
class Machine:
    """Runs stages under a wall clock that the test sets."""

    cluster: Cluster
    folder: Path
    topology: Path
    link: str
    """Where the dispatcher listens for workers, whichever process it is."""

    def environ(self, stage: str, wall_clock_off: float = 0) -> dict[str, str]:
        return self.cluster.environ(self.folder / "data") | {
            "STAGE": stage,
            "WALL_CLOCK_OFF": str(wall_clock_off),
            "TIDEGATE_TOPOLOGY": str(self.topology),
            "TIDEGATE_LINK_LISTEN": self.link,
            "TIDEGATE_LINK_TOKEN": TOKEN,
            "TIDEGATE_VAULT_KEY_FILE": str(self.folder / "key"),
        }

    def log(self, name: str, wall_clock_off: float) -> Path:
        return self.folder / f"{name}{wall_clock_off:+}.log"

    @contextmanager
    def stage(self, name: str, wall_clock_off: float) -> Iterator[StageProcess]:
        environ = self.environ(name, wall_clock_off)
        running = StageProcess("skewed_stage", self.log(name, wall_clock_off), environ)
        try:
            running.wait_for('"running"')
            yield running
            assert running.stop() == 0
        finally:
            running.kill()
            print(running.lines)


@pytest.fixture
def machine(kafka: Any, tmp_path: Path) -> Machine:
    file = tmp_path / "topology.yaml"
    file.write_text(TOPOLOGY)
    (tmp_path / "key").write_bytes(b"k" * 32)
    cluster = Cluster(kafka, load(file))
    cluster.create()
    return Machine(cluster, tmp_path, file, f"127.0.0.1:{pick_free()}")


def first_reading(clock: BrokerClock) -> bool:
    return eventually(lambda: clock.awaited(lambda: True), what="the broker's time is known")


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def say(cluster: Cluster, body: CommandBody, job_id: str = "", epoch: int = 0) -> None:
    command = Command(new_id("cmd"), "acme", job_id, epoch, now_ms(), body)
    cluster.send("jobs.commands", [(b"acme", COMMAND.encode(command))])


def submit(cluster: Cluster, job_id: str) -> None:
    say(cluster, Submit("reply", "{}", None, None, None, None, None, "ops", b"h", None), job_id)


def statuses(cluster: Cluster, job_id: str) -> list[str | None]:
    """What `jobs` said of a job; None for its tombstone."""
    told = [m.value() for m in cluster.read("jobs") if m.key() == job_id.encode()]
    return [None if value is None else JOB.decode(value).status for value in told]


def fired(cluster: Cluster, key: bytes) -> list[Message]:
    return [m for m in cluster.read("jobs.commands") if m.key() == key]


def test_a_clock_learns_the_brokers_time(kafka: Any, tmp_path: Path) -> None:
    cluster = Cluster(kafka, counting_topology())
    cluster.create()
    settings = load_settings(cluster.environ(tmp_path))
    with broker_clock(settings, "counting") as clock:
        assert first_reading(clock)
        assert abs(clock.now() - now_ms()) < 2_000
        assert clock.now() <= now_ms()


def test_a_topic_that_carries_the_writers_time_is_refused(kafka: Any, tmp_path: Path) -> None:
    cluster = Cluster(kafka, counting_topology())
    cluster.create()
    cluster.configure("clock", "message.timestamp.type", "CreateTime")
    settings = load_settings(cluster.environ(tmp_path))
    with broker_clock(settings, "counting") as clock, pytest.raises(ConfigError, match="apply"):
        first_reading(clock)


@pytest.mark.parametrize("off", [HALF_A_DAY, -HALF_A_DAY], ids=["ahead", "behind"])
def test_a_timer_fires_when_it_is_due_and_not_before(machine: Machine, off: int) -> None:
    with machine.stage("scheduler", off):
        due = now_ms() + 3_000
        wake = COMMAND.encode(Command("cmd_1", "acme", "job_1", 0, 0, Wake(1, 0, due)))
        timer = Schedule("job_1.1.0", "acme", due, "jobs.commands", b"timer", wake)
        machine.cluster.send("schedule", [(b"acme", SCHEDULE.encode(timer))])
        found = eventually(lambda: fired(machine.cluster, b"timer"), what="the timer")
    assert len(found) == 1
    assert due <= found[0].timestamp()[1] < due + 5_000


@pytest.mark.parametrize(
    ("off", "lifetime_ms", "answer"),
    [
        pytest.param(HALF_A_DAY, 2 * HOUR_MS, "granted", id="ahead"),
        pytest.param(-HALF_A_DAY, 61_000, "review", id="behind"),
    ],
)
def test_a_process_with_a_wrong_clock_purges_nothing_and_keeps_the_life_of_keys(
    machine: Machine, off: int, lifetime_ms: int, answer: str
) -> None:
    """A key counts as expired a minute early: of 61 seconds one is left."""
    cluster = machine.cluster
    with played_worker(f"ws://{machine.link}", "reply") as worker:
        with machine.stage("dispatcher", 0):
            submit(cluster, "job_ended")
            say(cluster, Cancel("not needed", "ops"), "job_ended")
            submit(cluster, "job_runs")
            lease = worker.lease("job_runs")
            first = worker.claim(lease, lifetime_ms)
            claimed_at = now_ms()
            assert first.kind == "granted"
            worker.unknown(lease, first, "timeout")
            eventually(
                lambda: statuses(cluster, "job_ended")[-1] == "cancelled", what="a job ended"
            )
        with machine.stage("dispatcher", off):
            eventually(lambda: now_ms() > claimed_at + 2_000, what="a key to expire")
            assert worker.claim(lease, lifetime_ms).kind == answer
            submit(cluster, "job_later")
            eventually(lambda: statuses(cluster, "job_later"), what="a round after all timers")
    assert None not in statuses(cluster, "job_ended"), "it was purged"
    assert "is rebuilt" not in machine.log("dispatcher", off).read_text()


def test_a_stage_that_finds_the_brokers_clock_moved_ends_until_a_person_takes_the_new_time(
    machine: Machine,
) -> None:
    """What it knew is set half a day back here, which is the same as the broker's clock ahead."""
    with machine.stage("scheduler", 0):
        pass
    kept = machine.folder / "data/state/scheduler/0/clock"
    known = json.loads(kept.read_bytes())
    moved = {name: known[name] - HALF_A_DAY * 1000 for name in ("low", "high")}
    kept.write_text(json.dumps(known | moved))
    for ends in (1, 2):
        ended = StageProcess("skewed_stage", machine.log("moved", 0), machine.environ("scheduler"))
        assert ended.exit_code() == 1
        told = re.findall(r"ClockStepped: the broker's clock moved by ([+-][0-9.]+) s", ended.lines)
        assert [float(each) for each in told] == [pytest.approx(HALF_A_DAY, abs=300)] * ends
    assert '"running"' not in machine.log("moved", 0).read_text()
    kept.unlink()
    with machine.stage("scheduler", 1):
        assert kept.exists()
