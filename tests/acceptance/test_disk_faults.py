"""The dedup stage under load on disks that are full or slow: its own, and its broker's."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.conditions import eventually
from support.dedup_under_load import DedupUnderLoad
from support.faulty_process import FaultyProcess
from support.kafka_under_test import KafkaUnderTest
from support.slow_disk import WRITE_GATE, waits_at
from support.small_disk import MIB, SmallDisk, small_disk

from streams.broker.embedded import EmbeddedKafka
from streams.settings import load_settings

pytestmark = [pytest.mark.broker, pytest.mark.fault]

FULL = "No space left on device"
REMEDY = "give the process a disk it may write"


@pytest.fixture
def disk(dedup: DedupUnderLoad) -> Iterator[SmallDisk]:
    """Of the stage's state, which goes to `data`; no room for what RocksDB allocates ahead."""
    with small_disk(dedup.folder / "data", 32) as found:
        found.fill(leave=8 * MIB)
        yield found


def ended_by_a_full_disk(stage: FaultyProcess) -> bool:
    """What ended it is what `tidegate dedup` would print: one of our errors, with its remedy."""
    assert stage.exit_code() > 0
    *_, last = stage.lines.splitlines()
    ours = ("streams.errors.StageFailed", "streams.errors.ConfigError")
    return last.startswith(ours) and FULL in last and REMEDY in last


def test_a_full_disk_ends_the_stage_with_a_clear_word_and_loses_nothing(
    dedup: DedupUnderLoad, disk: SmallDisk
) -> None:
    stage = dedup.start()
    dedup.await_recovery("start")
    disk.fill()
    assert ended_by_a_full_disk(stage)
    assert "which Kafka has committed" in stage.said("stage failed")["error"]
    assert ended_by_a_full_disk(dedup.start()), "also when it is started again too soon"
    disk.free()
    dedup.start()
    dedup.await_recovery("a full disk")
    assert dedup.verdict() == []


@pytest.mark.parametrize(
    "seconds", [3.0, pytest.param(load_settings().session_seconds + 5, marks=pytest.mark.chaos)]
)
def test_a_disk_that_does_not_answer_for_a_while(dedup: DedupUnderLoad, seconds: float) -> None:
    """Longer than the session and the transaction may last, too."""
    gate = dedup.folder / "gate"
    stage = dedup.start(**{WRITE_GATE: str(gate)})
    dedup.await_recovery("start")
    gate.touch()
    eventually(waits_at(gate).exists, what="a write waits")
    assert stage.points.now.step == "before_write"
    assert stage.points.now.in_flight
    # The broker has answered the commit before; its offsets may come a moment later.
    eventually(dedup.progress.stable, what="what was committed stands")
    before = eventually(dedup.progress.committed, what="the broker tells the group's offsets")
    assert not threading.Event().wait(seconds)
    assert dedup.progress.committed() == before, "nothing is committed before the write is done"
    gate.unlink()
    dedup.await_recovery(f"{seconds:g} s without the disk")
    assert dedup.verdict() == []


@pytest.mark.chaos
def test_a_broker_whose_disk_is_full_goes_on_when_it_has_room(tmp_path: Path) -> None:
    with ExitStack() as stack:
        disk = stack.enter_context(small_disk(tmp_path / "small", 600))
        broker = stack.enter_context(EmbeddedKafka(disk.path / "broker"))
        dedup = stack.enter_context(DedupUnderLoad(KafkaUnderTest(broker.bootstrap), tmp_path))
        stage = dedup.start()
        dedup.await_recovery("start")
        disk.fill()
        eventually(lambda: not broker.running, what="the broker ends")
        stage.wait_for("kafka does not answer")
        disk.free()
        broker.start()
        dedup.await_recovery("a broker's full disk")
        assert dedup.verdict() == []
