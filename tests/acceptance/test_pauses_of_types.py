"""A pause of a job type reaches every partition of a running pipeline, and so does its end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.conditions import eventually
from support.dev_process import Dev, start, stop

from streams.serde.ids import partition_for
from streams.topology.load import load

pytestmark = pytest.mark.broker

APP = Path(__file__).parent / "counted_app.py"
PARTITIONS = load().partitions
TENANTS = list({partition_for(f"t{n}", PARTITIONS): f"t{n}" for n in range(1_000)}.values())
"""A tenant in each partition."""
PAUSE = {"scope": "job_type", "value": "counted", "by": "ann"}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("log") / "log"


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory, log: Path) -> Iterator[Dev]:
    folder = tmp_path_factory.mktemp("dev")
    (folder / "topology.yaml").write_text("job_types: [{name: counted}, {name: uncounted}]\n")
    running = start(
        folder / "data",
        *("--app", "counted_app:app", "--topology", str(folder / "topology.yaml")),
        folder=APP.parent,
        environment={"COUNTED_LOG": str(log)},
    )
    yield running
    stop(running)


def submit(dev: Dev, type_: str) -> list[str]:
    """A job for each tenant; their ids."""
    path = "/v1/tenants/{}/jobs"
    return [dev.api("POST", path.format(t), {"type": type_})["job_id"] for t in TENANTS]


def run(dev: Dev, *types: str) -> list[list[str]]:
    """Submit jobs for each tenant, and see those of the last type succeed; ids by type."""
    found = [submit(dev, type_) for type_ in types]
    for job_id in found[-1]:
        succeeds(dev, job_id)
    return found


def succeeds(dev: Dev, job_id: str) -> None:
    path = f"/v1/jobs/{job_id}"
    eventually(lambda: dev.api("GET", path)["status"] == "succeeded", what=path)


def test_a_pause_of_a_type_reaches_all_partitions_and_so_does_its_end(dev: Dev, log: Path) -> None:
    for tenant in TENANTS:
        dev.api("PUT", f"/v1/tenants/{tenant}", {"display_name": tenant})
    dev.api("POST", "/v1/limits/pause", PAUSE | {"reason": "the bank is down"})
    run(dev, "uncounted")  # by then each partition has read the pause
    paused, _ = run(dev, "counted", "uncounted")
    for job_id in paused:
        job = dev.api("GET", f"/v1/jobs/{job_id}")
        assert job["status"] == "pending"
        assert "the bank is down" in str(job["why"])
    assert not log.exists()
    dev.api("POST", "/v1/limits/resume", PAUSE)
    for job_id in paused:
        succeeds(dev, job_id)
    assert log.read_text().split().count("ends") == len(TENANTS)
