"""The demo is not fooled: with a fault planted it exits 1 and names the guarantee that broke."""

from __future__ import annotations

import pytest
from demo_process import run_demo

QUICK = {"ledger_skipped"}
IN_FUSED_STAGES = {"dedup_forgets", "scheduler_early", "job_dropped", "store_edited"}
FAULTS = {
    "ledger_skipped": "G2",
    "dedup_forgets": "G1",
    "tenant_from_body": "G3",
    "scheduler_early": "G4",
    "job_dropped": "G1",
    "store_edited": "G6",
}


@pytest.mark.broker
@pytest.mark.parametrize(
    ("plant", "guarantee"),
    [
        pytest.param(plant, guarantee, marks=() if plant in QUICK else pytest.mark.chaos)
        for plant, guarantee in FAULTS.items()
    ],
)
def test_a_planted_fault_breaks_its_guarantee(plant: str, guarantee: str) -> None:
    assert_found(plant, guarantee)


@pytest.mark.broker
@pytest.mark.chaos
@pytest.mark.parametrize("plant", sorted(IN_FUSED_STAGES))
def test_so_it_does_with_the_stages_apart(plant: str) -> None:
    assert_found(plant, FAULTS[plant], "--apart")


def assert_found(plant: str, guarantee: str, *arguments: str) -> None:
    run = run_demo("--events", "30", "--redeliveries", "2", *arguments, plant=plant)
    assert run.code == 1, run.said
    assert guarantee in run.broken(), run.said
    assert f"{guarantee} broken:" in run.said
    assert run.figures["ok"] is False
