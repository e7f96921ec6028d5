"""The demo really run: a real Kafka, eight processes or eleven, SIGKILLs."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from support.conditions import PATIENCE_SECONDS, eventually
from support.demo_process import TIDEGATE, DemoRun, environment, run_demo

KEYS = [
    "events",
    "deliveries",
    "accepted",
    "duplicates",
    "jobs",
    "jobs_succeeded",
    "effects_executed",
    "duplicate_effects",
    "same_key_repeats",
    "lost_events",
    "cross_tenant_reads",
    "outgoing",
    "outgoing_delivered",
    "outgoing_parked",
    "outgoing_attempts",
    "outgoing_repeats",
    "kills",
    "ack_p50_ms",
    "ack_p99_ms",
    "start_p50_ms",
    "start_p99_ms",
    "queue_p50_ms",
    "pipeline_p50_ms",
    "seconds",
    "before",
    "guarantees",
    "ok",
]


@pytest.fixture(scope="module")
def killed() -> DemoRun:
    return run_demo("--events", "60", "--kill", "--before")


@pytest.mark.broker
def test_it_ends_well_though_every_kind_of_process_is_killed_at_work(killed: DemoRun) -> None:
    assert killed.code == 0, killed.said
    assert killed.figures["ok"] is True
    assert killed.broken() == set()
    assert killed.figures["kills"] >= 7


@pytest.mark.broker
@pytest.mark.chaos
def test_so_it_does_with_the_stages_apart() -> None:
    apart = run_demo("--events", "60", "--kill", "--apart")
    assert apart.code == 0, apart.said
    assert apart.broken() == set()
    assert "killed scheduler-0" in apart.said


@pytest.mark.broker
def test_its_object_has_the_fields_of_the_contract(killed: DemoRun) -> None:
    assert list(killed.figures) == KEYS
    assert list(killed.figures["guarantees"]) == [f"G{n}" for n in range(1, 9)]
    assert all(set(g) == {"checked", "violations"} for g in killed.figures["guarantees"].values())


@pytest.mark.broker
def test_every_event_gives_one_job_and_no_effect_happens_twice(killed: DemoRun) -> None:
    figures = killed.figures
    assert figures["deliveries"] == figures["accepted"] + figures["duplicates"] == 180
    assert figures["jobs"] == 61  # and the delayed one
    assert figures["duplicate_effects"] == figures["lost_events"] == 0
    assert figures["cross_tenant_reads"] == 0


@pytest.mark.broker
def test_every_guarantee_was_exercised(killed: DemoRun) -> None:
    checked = {name: g["checked"] for name, g in killed.figures["guarantees"].items()}
    assert all(checked.values()), checked


@pytest.mark.broker
def test_every_outgoing_delivery_arrived_or_is_parked_though_its_sender_was_killed(
    killed: DemoRun,
) -> None:
    figures = killed.figures
    assert figures["outgoing"] == figures["outgoing_delivered"] + figures["outgoing_parked"]
    assert figures["outgoing_parked"] >= 20  # of the endpoint that is disabled from the start
    assert figures["outgoing_attempts"] > figures["outgoing_delivered"]
    assert "killed delivery-0" in killed.said


@pytest.mark.broker
def test_the_naive_handler_stands_beside_it_with_its_duplicates(killed: DemoRun) -> None:
    before = killed.figures["before"]
    assert before["deliveries"] == 180
    assert before["duplicate_effects"] > before["effects_executed"] / 2


@pytest.mark.broker
def test_a_terminated_demo_leaves_neither_processes_nor_files_behind(tmp_path: Path) -> None:
    demo = subprocess.Popen(
        [TIDEGATE, "demo", "--events", "300"],
        env=environment() | {"TMPDIR": str(tmp_path)},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert demo.stderr is not None
    assert any("ready beside Kafka" in line for line in demo.stderr)
    (state,) = tmp_path.glob("tidegate-demo-*/dev.json")
    told = json.loads(state.read_text())
    pids = [told["broker_pid"], *(process["pid"] for process in told["processes"])]
    assert all(map(alive, pids))
    demo.terminate()
    demo.communicate(timeout=PATIENCE_SECONDS)
    assert demo.returncode == 130
    assert list(tmp_path.iterdir()) == []
    eventually(lambda: not any(map(alive, pids)), what="every process is gone")


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
