"""A real worker and a real pipeline on a real broker: names that meet, and a broker that dies."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.conditions import eventually
from support.jobs_verdict import JobsReader
from support.kafka_under_test import KafkaUnderTest
from support.own_users import CommandProcess
from support.stage_process import Cluster, StageProcess

from streams.broker.embedded import EmbeddedKafka
from streams.broker.ports import pick_free
from streams.serde.codec import COMMAND
from streams.serde.ids import new_id, partition_for
from streams.serde.records import Command, Job, Submit
from streams.topology.load import load

pytestmark = [pytest.mark.broker, pytest.mark.fault]

APP = """
import asyncio
from pathlib import Path
from streams import App, Context
app = App("test")

@app.job("waits")
async def waits(ctx: Context):
    while not Path("go").exists():
        await asyncio.sleep(0.05)
    return "done"
"""
TOPOLOGY = """
partitions: 2
leases: {term_seconds: 8, heartbeat_seconds: 1, margin_seconds: 2}
"""
TOKEN = "the-token-of-the-workers"


class Jobs:
    """A pipeline, and the workers that the test starts."""

    def __init__(self, kafka: KafkaUnderTest, folder: Path, ends: ExitStack) -> None:
        self._folder = folder
        self._ends = ends
        (folder / "jobs.py").write_text(APP)
        (folder / "vault.key").write_bytes(b"v" * 32)
        topology = folder / "topology.yaml"
        topology.write_text(TOPOLOGY)
        self._link = f"127.0.0.1:{pick_free()}"
        self._both = {"TIDEGATE_TOPOLOGY": str(topology), "TIDEGATE_LINK_TOKEN": TOKEN}
        self._topology = load(topology)
        self._cluster = Cluster(kafka, self._topology)
        self._cluster.create()
        self._reader = JobsReader(self._cluster)
        ends.callback(self._reader.close)
        self._dispatch()

    def worker(self, name: str) -> CommandProcess:
        """Start one more process under this name."""
        log = self._folder / f"{name}-{time.monotonic_ns()}.log"
        environ = {
            **os.environ,
            **self._both,
            "PYTHONPATH": str(self._folder),
            "TIDEGATE_LINK": f"ws://{self._link}",
            "TIDEGATE_INSTANCE": name,
            "TIDEGATE_LOG_FORMAT": "json",
        }
        flags = ["worker", "--app", "jobs:app", "--probe-port", "0", "--slots", "2"]
        started = CommandProcess(flags, log, environ, self._folder)
        self._until_the_end(started)
        return started

    def submit(self) -> str:
        """Ask for a job that waits until it is let go."""
        job_id, tenant, now = new_id("job"), "acme", round(time.time() * 1000)
        body = Submit("waits", "null", None, None, None, None, None, "ops", b"h", None)
        value = COMMAND.encode(Command(new_id("cmd"), tenant, job_id, 0, now, body))
        partition = partition_for(tenant, self._topology.partitions)
        self._cluster.send("jobs.commands", [(tenant.encode(), value)], partition)
        return job_id

    def let_go(self) -> None:
        (self._folder / "go").touch()

    def becomes(self, job_id: str, *statuses: str) -> Job:
        def found() -> Job | None:
            job = self._reader.look().get(job_id)
            return job if job is not None and job.status in statuses else None

        return eventually(found, what=f"{job_id} is {' or '.join(statuses)}")

    def _dispatch(self) -> None:
        environ = {
            **self._both,
            **self._cluster.environ(self._folder / "data"),
            "STAGE": "pipeline",
            "TIDEGATE_VAULT_KEY_FILE": str(self._folder / "vault.key"),
            "TIDEGATE_LINK_LISTEN": self._link,
        }
        pipeline = StageProcess("job_stage", self._folder / "pipeline.log", environ)
        self._until_the_end(pipeline)
        pipeline.wait_for('"running"')

    def _until_the_end(self, process: StageProcess) -> None:
        def end() -> None:
            process.kill()
            print(process.lines)

        self._ends.callback(end)


@pytest.fixture
def jobs(kafka: KafkaUnderTest, tmp_path: Path) -> Iterator[Jobs]:
    with ExitStack() as ends:
        yield Jobs(kafka, tmp_path, ends)


def test_a_second_process_under_one_instance_name_ends_the_first(jobs: Jobs) -> None:
    """Its runs go on in the second at once, and no attempt is counted."""
    first = jobs.worker("w1")
    job_id = jobs.submit()
    jobs.becomes(job_id, "running")
    eventually(first.ready, what="the first is ready")
    second = jobs.worker("w1")
    assert first.exit_code() == 1
    assert "give each its own TIDEGATE_INSTANCE" in first.lines
    jobs.let_go()
    job = jobs.becomes(job_id, "succeeded")
    assert job.attempts == 1
    assert second.stop() == 0


def test_a_silent_broker_ends_the_leases_and_a_new_start_of_it_the_silence(
    tmp_path: Path,
) -> None:
    """The owner acknowledges nothing that it cannot commit, and its worker stops in time."""
    with EmbeddedKafka(tmp_path / "kafka") as broker, ExitStack() as ends:
        kafka = KafkaUnderTest(broker.bootstrap, broker.client_settings, broker)
        jobs = Jobs(kafka, tmp_path, ends)
        worker = jobs.worker("w1")
        job_id = jobs.submit()
        jobs.becomes(job_id, "running")
        broker.kill()
        eventually(lambda: "lease lost" in worker.lines, what="the lease's end")
        broker.start()
        jobs.let_go()
        assert jobs.becomes(job_id, "succeeded").attempts == 1, "what is lost is no attempt"
        assert worker.stop() == 0
