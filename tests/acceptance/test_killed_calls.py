"""Workers and the pipeline die in the middle of calls under a limit: the tool sees no more."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import press
from support.conditions import eventually
from support.dev_process import Dev, start, stop
from support.press import Press

TESTS = Path(__file__).parents[1]
TOPOLOGY = """
limits:
  - {name: press, scope: tool, match: "press:*", per: tenant, concurrency: 2}
  - {name: set, scope: model, match: "press-*", per: tenant, concurrency: 2}
job_types: [{name: letter}, {name: page}]
"""
JOBS = 4
"""So many jobs are submitted before each kill."""
KILLED = ("worker-0", "pipeline-0", "worker-1")
pytestmark = [pytest.mark.broker, pytest.mark.chaos]


@pytest.fixture(scope="module")
def served() -> Iterator[Press]:
    with press.serving() as running:
        yield running


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory, served: Press) -> Iterator[Dev]:
    folder = tmp_path_factory.mktemp("press")
    (folder / "topology.yaml").write_text(TOPOLOGY)
    running = start(
        folder / "data",
        *("--app", press.TARGET, "--workers", "2"),
        *("--topology", str(folder / "topology.yaml")),
        environment={"PYTHONPATH": str(TESTS), press.URL: served.url},
    )
    yield running
    stop(running)


@pytest.mark.parametrize("type_", ["letter", "page"])
def test_no_more_calls_are_under_way_than_the_cap_says_whoever_is_killed(
    dev: Dev, served: Press, type_: str
) -> None:
    served.gate.set()
    eventually(lambda: served.now == 0, what="no call is under way")
    served.most, jobs = 0, []
    for name in KILLED:
        served.gate.clear()
        for _ in range(JOBS):
            jobs.append(dev.api("POST", "/v1/tenants/demo/jobs", {"type": type_}))
        eventually(lambda: served.now == 2, what="the cap is reached")
        os.kill(dev.pids[name], signal.SIGKILL)
        served.gate.set()
        for job in jobs:
            path = f"/v1/jobs/{job['job_id']}"
            eventually(lambda: dev.api("GET", path)["status"] == "succeeded", what=path)  # noqa: B023
    assert served.most == 2
