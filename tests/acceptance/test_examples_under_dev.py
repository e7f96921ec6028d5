"""The examples for agents under `tidegate dev`: their worker is killed in the middle of a call."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from support.at_the_terminal import AtTheTerminal
from support.conditions import eventually
from support.dev_process import Dev, start, stop
from support.played_github import FAILED, PlayedGitHub, played_github
from support.three_examples import HAPPENED, TARGET, happened, topology

ROOT = Path(__file__).parents[2]
OF_TENANT = "/v1/tenants/demo"
pytestmark = pytest.mark.broker


@dataclass(frozen=True)
class Installation:
    """A `dev` that runs the examples, the file in which their tools tell what they do, and the
    GitHub that they call."""

    dev: Dev
    told: Path
    github: PlayedGitHub

    def calls(self, tool: str, moment: str) -> list[dict[str, Any]]:
        """The arguments of each call of a tool that has begun, or finished."""
        found = (each for each in happened(self.told) if each["tool"] == tool)
        return [each["arguments"] for each in found if each["moment"] == moment]

    def kill_worker(self) -> None:
        os.kill(self.dev.pids["worker-0"], signal.SIGKILL)

    def kill_worker_in(self, tool: str) -> None:
        eventually(lambda: self.calls(tool, "begun"), what=f"{tool} is called")
        self.kill_worker()

    def jobs(self, type_: str) -> list[dict[str, Any]]:
        path = f"/v1/jobs?tenant_id=demo&type={type_}"
        found: list[dict[str, Any]] = self.dev.api("GET", path)["jobs"]
        return found

    def ended(self, job_id: str) -> dict[str, Any]:
        """The job, once it has succeeded."""

        def succeeded() -> dict[str, Any] | None:
            job: dict[str, Any] = self.dev.api("GET", f"/v1/jobs/{job_id}")
            return job if job["status"] == "succeeded" else None

        return eventually(succeeded, what=f"{job_id} succeeded")

    def approve(self, job_id: str, **edit: Any) -> None:
        """Approve what a job asks for, once it does."""
        path = "/v1/approvals?tenant_id=demo&status=pending"

        def asked() -> list[str]:
            pending = self.dev.api("GET", path)["approvals"]
            return [each["approval_id"] for each in pending if each["job_id"] == job_id]

        (approval_id,) = eventually(asked, what=f"{job_id} asks a person")
        self.dev.api("POST", f"/v1/approvals/{approval_id}/approve", {"note": "seen", **edit})


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    folder = tmp_path_factory.mktemp("examples")
    (folder / "topology.yaml").write_text(topology())
    with played_github() as github:
        dev = start(
            folder / "data",
            "--app",
            TARGET,
            "--topology",
            str(folder / "topology.yaml"),
            folder=ROOT,
            environment={
                "PYTHONPATH": str(ROOT / "tests"),
                "GITHUB_TOKEN": "a-token",
                "GITHUB_API_URL": github.url,
                HAPPENED: str(folder / "happened"),
            },
        )
        try:
            yield Installation(dev, folder / "happened", github)
        finally:
            stop(dev)


def test_an_agent_calls_no_tool_again_that_has_finished(installation: Installation) -> None:
    task = {"type": "agent", "input": {"task": "Refund order 4171, please."}}
    job_id = installation.dev.api("POST", f"{OF_TENANT}/jobs", task)["job_id"]
    installation.approve(job_id)
    installation.kill_worker_in("agent email:send")
    job = installation.ended(job_id)
    assert job["result"]["turns"] == 5
    assert len(installation.calls("model", "begun")) == 5
    orders = installation.calls("agent shop:order", "begun")
    assert [each["order_id"] for each in orders] == ["4171", "4711"]
    assert len(installation.calls("agent shop:refund", "begun")) == 1
    first, second = installation.calls("agent email:send", "begun")
    assert first == second, "it was under way when its worker was killed: the key is the same"
    assert len(installation.calls("agent email:send", "finished")) == 1


def test_a_failed_run_of_ci_has_one_comment(installation: Installation) -> None:
    """Delivered three times; the worker is killed after GitHub has the comment."""
    desk, github = AtTheTerminal(installation.dev.data_dir), installation.github
    made = desk.run("sources set github --tenant demo --scheme github --generate")
    assert made.code == 0, made
    send = "send --tenant demo --source github --sample workflow_run --times 3 --no-wait --json"
    sent = desk.run(send)
    assert sent.code == 0, sent
    eventually(lambda: github.comments, what="the comment is posted")
    installation.kill_worker()
    github.let_go.set()
    (job,) = eventually(lambda: installation.jobs("triage"), what="the job is shown")
    assert installation.ended(job["job_id"])["result"]["failed"] == len(FAILED)
    (comment,) = github.comments
    for number, name in FAILED.items():
        assert f"- **{name}**: an error in job {number}" in comment
    assert Counter(each["status"] for each in installation.jobs("look_at_log")) == {"succeeded": 2}


def test_a_digest_comes_by_the_clock_and_is_sent_once_as_it_was_approved(
    installation: Installation,
) -> None:
    at = datetime.now(UTC) + timedelta(seconds=5)
    schedule = {"id": "tonight", "job": "digest", "at": at.isoformat(timespec="seconds")}
    installation.dev.api("POST", f"{OF_TENANT}/schedules", schedule)

    def due() -> list[str]:
        found = installation.jobs("digest")
        return [each["job_id"] for each in found if each["schedule_id"] == "tonight"]

    (job_id,) = eventually(due, what="the schedule has made its job")
    installation.approve(job_id, edit={"subject": "Your Monday"})
    installation.kill_worker_in("digest email:send")
    assert installation.ended(job_id)["result"] == "sent"
    (letter,) = installation.calls("digest email:send", "finished")
    assert letter["subject"] == "Your Monday"
    assert len(letter["text"].splitlines()) == 3
