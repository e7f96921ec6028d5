"""Real processes over a Kafka that wants TLS and a password; a worker dies half-way."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from support.conditions import PATIENCE_SECONDS
from support.secured import ConfiguredKafka, self_signed

from streams.dev.layout import Layout
from streams.dev.pipeline import Pipeline
from streams.settings import load_settings

pytestmark = pytest.mark.broker


class Running:
    """A pipeline, its operator's API, and what its handlers wrote down."""

    def __init__(self, pipeline: Pipeline, http: aiohttp.ClientSession, log: Path) -> None:
        self.pipeline = pipeline
        self._http = http
        self._log = log

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        status, answer = await self._ask(method, path, body)
        assert status < 300, answer
        return json.loads(answer)

    async def job_where(self, job_id: str, holds: Callable[[Any], bool]) -> Any:
        """The job, once what the operator shows of it holds."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not ((job := await self._job(job_id)) and holds(job)):
                await asyncio.sleep(0.1)
        return job

    async def figures_where(self, holds: Callable[[Any], bool]) -> Any:
        """The tenant's figures of the last hour, once what analytics counted holds."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not holds(found := await self.call("GET", "/analytics/summary?tenant_id=acme")):
                await asyncio.sleep(0.1)
        return found

    async def _job(self, job_id: str) -> Any:
        """None while the operator does not show it: a submission may be answered before."""
        status, answer = await self._ask("GET", f"/jobs/{job_id}")
        assert status < 300 or status in {404, 503}, answer
        return json.loads(answer) if status < 300 else None

    async def _ask(self, method: str, path: str, body: Any = None) -> tuple[int, str]:
        token = self.pipeline.credentials.admin_token
        secret = token if isinstance(token, str) else token.get_secret_value()
        headers = {"Authorization": f"Bearer {secret}"}
        url = f"{self.pipeline.url}/v1{path}"
        async with self._http.request(method, url, json=body, headers=headers) as answer:
            return answer.status, await answer.text()

    def did(self, what: str) -> list[str]:
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        return [line for line in lines if line.startswith(what)]


@pytest.fixture
async def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Running]:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    log = tmp_path / "happened"
    with ConfiguredKafka(tmp_path / "kafka", security=self_signed(tmp_path)) as kafka:
        settings = load_settings(
            {},
            bootstrap=kafka.bootstrap,
            kafka=dict(kafka.client_settings),
            data_dir=tmp_path / "data",
            port=0,
        )
        pipeline = Pipeline(
            settings,
            Layout(analytics=1),
            app="resuming_app:app",
            allow_unsafe=True,
            env={"RESUMING_LOG": str(log)},
        )
        async with pipeline, aiohttp.ClientSession() as http:
            yield Running(pipeline, http, log)


async def test_what_a_killed_worker_had_done_is_not_done_again(running: Running) -> None:
    """Over SASL_SSL from end to end; steps, effects and progress are seen over HTTP."""
    await running.call("PUT", "/tenants/acme", {})
    body = {"type": "resume", "input": {"text": "hello"}}
    job_id = (await running.call("POST", "/tenants/acme/jobs", body))["job_id"]
    before = await running.job_where(
        job_id,
        lambda job: (
            job["progress"] == {"attempt": 1}
            and [(each["name"], each["value"]) for each in job["steps"]] == [("write", "HELLO")]
            and [effect["status"] for effect in job["effects"]] == ["done"]
        ),
    )

    pid = running.pipeline.pid("worker-0")
    assert pid is not None
    os.kill(pid, signal.SIGKILL)

    after = await running.job_where(job_id, lambda job: job["status"] == "succeeded")
    assert after["result"] == {"text": "HELLO", "sent": "HELLO"}
    assert (after["attempts"], after["lost"]) == (1, 1), "what is lost with a worker is no attempt"
    assert after["steps"] == before["steps"]
    assert (len(running.did("run")), len(running.did("step")), len(running.did("effect"))) == (
        2,
        1,
        1,
    )
    key = before["effects"][0]["idempotency_key"]
    assert running.did("effect") == [f"effect HELLO {key}"]
    figures = await running.figures_where(lambda found: found["jobs"] == {"succeeded": 1})
    assert figures["effects"] == {"mail:send": {"done": 1}}

    plain = AdminClient({"bootstrap.servers": running.pipeline.settings.bootstrap, "log_level": 0})
    with pytest.raises(KafkaException):
        await asyncio.to_thread(plain.list_topics, timeout=2)
