"""Damaged, old and foreign state under load: named, rebuilt from the changelog, nothing else."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import state_files
from support.conditions import eventually
from support.dedup_under_load import DedupUnderLoad
from support.faulty_process import FaultyProcess
from support.group_progress import RECOVERY_SECONDS
from support.kafka_under_test import KafkaUnderTest

from streams.runtime import doubted_ends
from streams.state.rocksdb import FORMAT

pytestmark = [pytest.mark.broker, pytest.mark.fault]

REBUILT = "store is rebuilt"
RUN = 400
TABLES, MANIFEST, LOG, CURRENT = "*.sst", "MANIFEST-*", "*.log", "CURRENT"


@pytest.fixture
def dedup(kafka: KafkaUnderTest, tmp_path: Path) -> Iterator[DedupUnderLoad]:
    """Killed with state on disk: what was there when it started, and what came since."""
    with DedupUnderLoad(kafka, tmp_path) as running:
        for run in (1, 2):
            before = worked(running)
            stage = running.start()
            eventually(lambda: worked(running) > before + RUN, what=f"run {run}'s work")  # noqa: B023
            stage.kill_in_flight()
        yield running


def worked(dedup: DedupUnderLoad) -> int:
    """Records processed of the partition that is least ahead."""
    return min(dedup.progress.committed().values(), default=0)


def store(dedup: DedupUnderLoad, partition: int) -> Path:
    return dedup.folder / "data/state/dedup/0/seen" / str(partition)


def rebuilt(stage: FaultyProcess) -> dict[int, str]:
    """By partition, why its store was rebuilt."""
    lines = [json.loads(line) for line in stage.lines.splitlines() if REBUILT in line]
    return {line.get("partition", -1): line["why"] for line in lines}


def test_flipped_bytes_are_found_and_their_stores_rebuilt(dedup: DedupUnderLoad) -> None:
    """In a table of keys they are found when a key near them is looked up."""
    for partition, pattern in enumerate((TABLES, MANIFEST, CURRENT)):
        print("flipped:", state_files.flip(store(dedup, partition), pattern, dedup.random))
    stage = dedup.start()
    stage.wait_for(REBUILT, times=3)
    dedup.await_recovery("flipped bytes")
    assert dedup.verdict() == []


@pytest.mark.chaos
def test_flipped_bytes_in_the_log_cost_what_stands_behind_them(dedup: DedupUnderLoad) -> None:
    """As after a crash in the middle of a write: the store is older, and caught up."""
    for partition in range(4):
        print("flipped:", state_files.flip(store(dedup, partition), LOG, dedup.random))
    stage = dedup.start()
    dedup.await_recovery("flipped bytes")
    caught_up = [json.loads(x) for x in stage.lines.splitlines() if "store restored" in x]
    assert sum(line["entries"] for line in caught_up) > 0
    assert dedup.verdict() == []


@pytest.mark.chaos
@pytest.mark.parametrize("_round", range(3))
def test_bytes_flipped_anywhere_again_and_again(dedup: DedupUnderLoad, _round: int) -> None:
    for number in range(4):
        for partition in range(4):
            pattern = dedup.random.choice((TABLES, TABLES, MANIFEST, LOG, CURRENT))
            print("flipped:", state_files.flip(store(dedup, partition), pattern, dedup.random))
        stage = dedup.start()
        dedup.await_recovery(f"flipped bytes, time {number}")
        stage.kill_in_flight()
        dedup.start()
        dedup.await_recovery("a kill")
        dedup.processes[-1].kill_in_flight()
    stage = dedup.start()
    dedup.await_recovery("the last start")
    assert dedup.verdict() == []


def test_an_old_copy_put_back_is_caught_up_from_the_changelog(
    dedup: DedupUnderLoad, tmp_path: Path
) -> None:
    state, copy = dedup.folder / "data/state", tmp_path / "copy"
    shutil.copytree(state, copy)
    stage = dedup.start()
    dedup.await_recovery("start")
    stage.kill_in_flight()
    shutil.rmtree(state)
    copy.rename(state)
    stage = dedup.start()
    dedup.await_recovery("an old copy")
    assert REBUILT not in stage.lines
    assert dedup.verdict() == []


def test_foreign_state_is_named_and_rebuilt(dedup: DedupUnderLoad) -> None:
    state_files.claim(store(dedup, 0), "of 4,", "of 8,")
    state_files.claim(store(dedup, 1), f"format {FORMAT},", "format 0,")
    state_files.claim(store(dedup, 2), "changelog ", "changelog of another ")
    stage = dedup.start()
    dedup.await_recovery("foreign state")
    why = rebuilt(stage)
    for partition, named in enumerate(("of 8", "format 0,", "of another")):
        assert named in why[partition]
    assert dedup.verdict() == []


@pytest.mark.chaos
def test_a_store_ahead_of_its_changelog_is_rebuilt_once_the_end_is_believed(
    dedup: DedupUnderLoad,
) -> None:
    state_files.advance(store(dedup, 3), 1_000_000)
    stage = dedup.start()
    dedup.await_recovery("a store ahead", doubted_ends.DOUBT_SECONDS + RECOVERY_SECONDS)
    assert "behind the changelog" in rebuilt(stage)[3]
    assert dedup.verdict() == []
