"""A rolling upgrade: the processes of an earlier release run beside this one's, and go back once.

The earlier release is a commit of this repository; without its history the test is skipped.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tarfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path

import pytest
import yaml
from confluent_kafka.admin import AdminClient
from support.conditions import eventually
from support.kafka_under_test import KafkaUnderTest
from support.whole_calls import TOKEN, Calls

pytestmark = [pytest.mark.broker, pytest.mark.long]

ROOT = Path(__file__).parents[2]
RELEASE, COMMIT = "0.1.0a1", "2030aa2"
ORDER = ("pipeline", "delivery", "worker", "operator", "ingress")
"""As docs/upgrading.md has it."""
APPLICATION = """
from streams import App, Context
app = App("answers")

@app.job("answer")
async def answer(ctx: Context):
    return {"answered": (await ctx.json())["id"]}
"""
TOPOLOGY = {
    "partitions": 2,
    "routes": [{"match": {"source": "shop", "event_type": "*"}, "job": "answer"}],
}


@dataclass
class Cluster:
    """One process of each stage, of whichever release."""

    directory: Path
    environment: dict[str, str]
    ports: dict[str, int]
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def apply(self, tree: Path) -> None:
        """Apply the topology of a release."""
        command = [sys.executable, "-m", "streams.cli", "topology", "apply", "--allow-unsafe"]
        subprocess.run(command, env=self._environment(tree), cwd=self.directory, check=True)

    def run(self, stage: str, tree: Path, **settings: str) -> None:
        """Replace the process of a stage, and wait until it is ready."""
        self.stop(stage)
        more = ["--app", "answers:app"] if stage == "worker" else []
        with (self.directory / f"{stage}.log").open("ab") as log:
            self.processes[stage] = subprocess.Popen(
                [sys.executable, "-m", "streams.cli", stage, *more],
                cwd=self.directory,
                stdout=log,
                stderr=log,
                env=self._environment(tree)
                | settings
                | {
                    "TIDEGATE_PORT": str(self.ports[stage]),
                    "TIDEGATE_PROBE_PORT": str(self.ports[stage]),
                },
            )
        eventually(lambda: self._ready(stage), 60, what=f"{stage} of {tree.name} is ready")

    def stop(self, stage: str) -> None:
        """End a stage as a planned stop does."""
        known = self.processes.pop(stage, None)
        if known is not None:
            known.send_signal(signal.SIGTERM)
            assert known.wait(40) == 0, (self.directory / f"{stage}.log").read_text()[-2000:]

    def calls(self) -> Calls:
        url = {name: f"http://127.0.0.1:{self.ports[name]}" for name in ("operator", "ingress")}
        return Calls(**url)

    def _environment(self, tree: Path) -> dict[str, str]:
        path = f"{tree}{os.pathsep}{self.directory}"
        return {**os.environ, **self.environment, "PYTHONPATH": path}

    def _ready(self, stage: str) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[stage]}/readyz", timeout=5):
                return True
        except OSError:
            return False


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The code of the earlier release."""
    archive = subprocess.run(
        [
            "git",
            "-C",
            str(ROOT),
            "archive",
            COMMIT,
            "streams",
            "ingress",
            "schemas",
            "topology.yaml",
            "pyproject.toml",
        ],
        capture_output=True,
        check=False,
    )
    if archive.returncode:
        pytest.skip(f"the history of this checkout lacks commit {COMMIT}, the earlier release")
    tree = tmp_path_factory.mktemp("before")
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as files:
        files.extractall(tree, filter="data")
    return tree


@pytest.fixture
def cluster(kafka: KafkaUnderTest, tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(
        tmp_path, _environment(kafka, tmp_path), {stage: _free_port() for stage in ORDER}
    )
    yield made
    for process in made.processes.values():
        process.kill()
    admin, prefix = AdminClient(kafka.client()), made.environment["TIDEGATE_TOPIC_PREFIX"]
    mine = [name for name in admin.list_topics(timeout=10).topics if name.startswith(prefix)]
    for deleted in (admin.delete_topics(mine) if mine else {}).values():
        deleted.result(30)


def _environment(kafka: KafkaUnderTest, directory: Path) -> dict[str, str]:
    for name in ("vault", "cluster"):
        (directory / f"{name}.key").write_bytes(os.urandom(32))
    (directory / "answers.py").write_text(APPLICATION)
    (directory / "topology.yaml").write_text(yaml.safe_dump(TOPOLOGY))
    return {
        "TIDEGATE_BOOTSTRAP": kafka.bootstrap,
        "TIDEGATE_TOPIC_PREFIX": f"{directory.name}.",
        "TIDEGATE_TOPOLOGY": str(directory / "topology.yaml"),
        "TIDEGATE_DATA_DIR": str(directory / "data"),
        "TIDEGATE_ADMIN_TOKEN": TOKEN,
        "TIDEGATE_VAULT_KEY_FILE": str(directory / "vault.key"),
        "TIDEGATE_CLUSTER_KEY_FILE": str(directory / "cluster.key"),
    }


def test_each_stage_is_upgraded_alone_goes_back_and_nothing_is_lost_or_done_twice(
    cluster: Cluster, before: Path
) -> None:
    cluster.apply(before)
    for stage in ORDER:
        cluster.run(stage, before)
    calls, events = cluster.calls(), iter(range(100))
    calls.make_source()
    jobs = [_worked(calls, next(events))]

    cluster.apply(ROOT)
    as_before = {"TIDEGATE_WRITE_AS_RELEASE": RELEASE}
    for stage in ORDER:
        cluster.run(stage, ROOT, **as_before)
        jobs.append(_worked(calls, next(events)))
    with pytest.raises(urllib.error.HTTPError) as refused:
        _replay(calls)
    assert refused.value.code == 409
    assert b"upgrade-unfinished" in refused.value.read()

    for stage in ("pipeline", "worker"):
        cluster.run(stage, before)
        jobs.append(_worked(calls, next(events)))
    for stage in ("pipeline", "worker"):
        cluster.run(stage, ROOT, **as_before)

    for stage in ORDER:
        cluster.run(stage, ROOT)
        jobs.append(_worked(calls, next(events)))
    assert _replay(calls)["note"] == "tried"
    assert len(set(jobs)) == len(jobs)
    assert calls.ask("GET", "/v1/dlq")["dead_letters"] == []


def _worked(calls: Calls, number: int) -> str:
    """Deliver an event and see its job succeed; delivered again, it has the same job."""
    job_id = calls.deliver(number)
    assert calls.result(job_id) == {"answered": number}
    assert calls.deliver(number) == job_id
    return job_id


def _replay(calls: Calls) -> Mapping[str, str]:
    since = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    body = {"tenant_id": "acme", "since": since, "job": "answer", "note": "tried"}
    found: Mapping[str, str] = calls.ask("POST", "/v1/replays", body)
    return found


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
