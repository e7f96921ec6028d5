"""A cap of a job type holds over all partitions, also while their processes are killed."""

from __future__ import annotations

import os
import signal
from itertools import accumulate
from pathlib import Path

import pytest
from support.conditions import eventually
from support.dev_process import Dev, start, stop

pytestmark = [pytest.mark.broker, pytest.mark.chaos]

APP = Path(__file__).parent / "counted_app.py"
CAP, TENANTS, JOBS = 3, 8, 40


def most_at_once(log: Path) -> int:
    """How many jobs ran at once, as the application saw it from outside."""
    steps = {"begins": 1, "ends": -1}
    return max(accumulate(steps[line] for line in log.read_text().split()))


def ended(log: Path) -> int:
    return log.read_text().split().count("ends") if log.exists() else 0


def submit(dev: Dev, tenant: str, number: int) -> None:
    body = {"type": "counted", "input": {}, "dedup_key": f"{number}"}
    dev.api("POST", f"/v1/tenants/{tenant}/jobs", body)


def test_no_more_jobs_run_at_once_than_the_cap_while_the_pipeline_is_killed(tmp_path: Path) -> None:
    limits, log = tmp_path / "limits.yaml", tmp_path / "log"
    limits.write_text(
        f"job_types: [{{name: counted}}]\n"
        f"limits: [{{name: counted, scope: job_type, match: counted, concurrency: {CAP}}}]\n"
    )
    own = {"COUNTED_LOG": str(log)}
    dev = start(
        tmp_path / "data",
        *("--app", "counted_app:app", "--topology", str(limits), "--workers", "2"),
        folder=APP.parent,
        environment=own,
    )
    try:
        run_all(dev, log)
    finally:
        stop(dev)
    assert most_at_once(log) == CAP


def run_all(dev: Dev, log: Path) -> None:
    tenants = [f"tenant-{number}" for number in range(TENANTS)]
    for tenant in tenants:
        dev.api("PUT", f"/v1/tenants/{tenant}", {"display_name": tenant})
    for number in range(JOBS):
        for tenant in tenants:
            submit(dev, tenant, number)
        if number % 10 == 5:
            os.kill(dev.pids["pipeline-0"], signal.SIGKILL)
    eventually(lambda: ended(log) >= TENANTS * JOBS, 240, what="all jobs have run")
