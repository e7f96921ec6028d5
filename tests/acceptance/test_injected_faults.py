"""The demo is not fooled: with a fault injected it exits 1 and names the guarantee that broke."""

from __future__ import annotations

import pytest
from support.demo_process import run_demo

pytestmark = [pytest.mark.broker, pytest.mark.chaos]

IN_FUSED_STAGES = {"dedup_forgets", "scheduler_early", "job_dropped", "store_edited"}
FAULTS = {
    "ledger_skipped": "G2",
    "dedup_forgets": "G1",
    "tenant_from_body": "G3",
    "scheduler_early": "G4",
    "job_dropped": "G1",
    "store_edited": "G6",
    "seen_before_delivery": "G7",
}


@pytest.mark.parametrize(("fault", "guarantee"), FAULTS.items())
def test_an_injected_fault_breaks_its_guarantee(fault: str, guarantee: str) -> None:
    assert_found(fault, guarantee)


@pytest.mark.parametrize("fault", sorted(IN_FUSED_STAGES))
def test_so_it_does_with_the_stages_apart(fault: str) -> None:
    assert_found(fault, FAULTS[fault], "--apart")


def assert_found(fault: str, guarantee: str, *arguments: str) -> None:
    run = run_demo("--events", "30", "--redeliveries", "2", *arguments, fault=fault)
    assert run.code == 1, run.said
    assert guarantee in run.broken(), run.said
    assert f"{guarantee} broken:" in run.said
    assert run.figures["ok"] is False
