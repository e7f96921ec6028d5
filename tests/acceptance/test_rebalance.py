"""Partitions of dedup on their way from one process to another, and those that stay."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.conditions import eventually
from support.dedup_under_load import DedupUnderLoad
from support.stage_process import StageProcess

LEFT = "tidegate_stage_restore_records_left"
LONG_SESSION = {"TIDEGATE_KAFKA_SESSION_TIMEOUT_MS": "60000"}
"""Longer than a busy machine takes to start a process."""

pytestmark = [pytest.mark.broker, pytest.mark.fault]


def count(process: StageProcess, event: str) -> int:
    return process.lines.count(f'"event": "{event}"')


def test_who_keeps_a_partition_works_on_while_others_move(dedup: DedupUnderLoad) -> None:
    first = dedup.start("0")
    dedup.await_recovery("start")
    restored = count(first, "store restored")
    second = dedup.start("1")
    second.wait_for('"event": "running"')
    dedup.await_recovery("a second instance")
    eventually(lambda: count(first, "running") == 2, what="the first has fewer partitions")
    assert count(first, "assigned") == 1
    assert count(first, "store restored") == restored
    assert dedup.verdict() == []


def test_a_restart_within_the_session_disturbs_nobody_else(dedup: DedupUnderLoad) -> None:
    first, second = dedup.start("0", **LONG_SESSION), dedup.start("1", **LONG_SESSION)
    eventually(lambda: len(first.share) == len(second.share) == 2, what="two shares")
    dedup.await_recovery("start")
    seen = count(first, "running")
    assert second.stop() == 0
    third = dedup.start("1", **LONG_SESSION)
    third.wait_for('"event": "running"')
    dedup.await_recovery("a restart")
    assert count(first, "running") == seen
    assert dedup.verdict() == []


def test_a_rebalance_in_the_middle_of_a_restore(dedup: DedupUnderLoad, tmp_path: Path) -> None:
    dedup.start("0")
    dedup.await_recovery("start")
    dedup.flood.wait(2)
    assert dedup.processes[0].stop() == 0
    dedup.wipe()
    hold = tmp_path / "hold"
    hold.touch()
    first = dedup.start("0", HOLD_RESTORE=str(hold))
    first.wait_for('"event": "assigned"')
    second = dedup.start("1")
    second.wait_for('"event": "running"')
    assert count(first, "running") == 0, "it was not in the middle of its restore"
    assert not first.ready()
    eventually(lambda: first.metric(LEFT) > 0, what="what is left to restore is told")
    hold.unlink()
    first.wait_for('"event": "running"')
    eventually(first.ready, what="ready, once restored")
    assert first.metric(LEFT) == 0
    dedup.await_recovery("a rebalance while the first restored")
    assert dedup.verdict() == []
