"""Secrets that handlers say, on a real Kafka: every topic, log, metric and answer is searched."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition
from support.canaries import CREDENTIAL, JOBS, TOPOLOGY, found_in
from support.conditions import PATIENCE_SECONDS, eventually
from support.dev_process import Dev, get, start, stop

from streams.serde.job_states import TERMINAL

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dev]:
    folder = tmp_path_factory.mktemp("canaries")
    (folder / "topology.yaml").write_text(TOPOLOGY)
    at = start(
        folder / "data",
        *("--app", "support.canaries:app", "--topology", str(folder / "topology.yaml")),
        folder=ROOT,
        environment={
            "PYTHONPATH": str(ROOT / "tests"),
            "CANARY_KEY": CREDENTIAL,
            "TIDEGATE_LOG_LEVEL": "debug",
        },
    )
    yield at
    assert stop(at) == 0


def submit(dev: Dev, type_: str, given: Any) -> str:
    body = {"type": type_, "input": given}
    job_id: str = dev.api("POST", "/v1/tenants/demo/jobs", body)["job_id"]
    return job_id


def _is_over(job: dict[str, Any]) -> bool:
    return job["status"] in TERMINAL


def streamed(dev: Dev, job_id: str) -> bytes:
    """The events of a job that has ended, to the last."""
    headers = {"Authorization": f"Bearer {dev.token}"}
    status, text = get(f"{dev.url}/v1/jobs/{job_id}/events", headers)
    assert status == 200
    return text.encode()


def records(dev: Dev) -> Iterator[tuple[str, bytes]]:
    """Every record that Kafka has, with key and headers, also those of aborted transactions."""
    consumer = Consumer(
        {
            "bootstrap.servers": dev.state["bootstrap"],
            "group.id": "canaries",
            "isolation.level": "read_uncommitted",
            "enable.partition.eof": True,
        }
    )
    try:
        topics = consumer.list_topics(timeout=10).topics
        places = [
            TopicPartition(topic, partition, OFFSET_BEGINNING)
            for topic, found in topics.items()
            for partition in found.partitions
        ]
        consumer.assign(places)
        yield from _to_the_ends(consumer, len(places))
    finally:
        consumer.close()


def _to_the_ends(consumer: Consumer, partitions: int) -> Iterator[tuple[str, bytes]]:
    """Each record, until the end of each partition has been read once."""
    ends: set[tuple[str | None, int | None]] = set()
    while len(ends) < partitions:
        message = consumer.poll(PATIENCE_SECONDS)
        assert message is not None, "Kafka does not answer"
        error = message.error()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            ends.add((message.topic(), message.partition()))
            continue
        held = (message.key() or b"") + b" " + (message.value() or b"")
        yield f"{message.topic()} {message.offset()}", held + repr(message.headers()).encode()


@pytest.fixture(scope="module")
def jobs(dev: Dev) -> list[str]:
    """Jobs whose handlers have said secrets wherever they can."""
    made = [submit(dev, type_, given) for type_, given in JOBS]

    def ended() -> bool:
        found = [dev.api("GET", f"/v1/jobs/{job_id}")["status"] for job_id in made]
        return all(status in {*TERMINAL, "needs_review"} for status in found)

    eventually(ended, what="all jobs have ended")
    return made


def test_nothing_shows_a_secret_that_a_handler_says(dev: Dev, jobs: list[str]) -> None:
    shown = [(f"job {job_id}", dev.api("GET", f"/v1/jobs/{job_id}")) for job_id in jobs]
    shown.append(("dlq", dev.api("GET", "/v1/dlq?tenant_id=demo")))
    shown.append(("approvals", dev.api("GET", "/v1/approvals?tenant_id=demo")))
    answers = [(place, json.dumps(held, ensure_ascii=False).encode()) for place, held in shown]
    over = [job_id for (_, held), job_id in zip(shown, jobs, strict=False) if _is_over(held)]
    answers += [(f"stream of {job_id}", streamed(dev, job_id)) for job_id in over]
    assert found_in(answers) == []
    assert sum(b"[redacted]" in held for _, held in answers) > len(jobs) / 2
    found = list(records(dev))
    assert {place.partition(" ")[0] for place, _ in found} >= {"jobs", "ledger", "jobs.progress"}
    assert found_in(found) == []


@pytest.mark.usefixtures("jobs")
def test_no_log_line_and_no_metric_shows_one(dev: Dev) -> None:
    dev.told("sent key [redacted], card [redacted], mail [redacted], case [redacted]")
    dev.told("Future exception was never retrieved")
    lines = [(f"line {number}", line.encode()) for number, line in enumerate(dev.errors)]
    assert any(b"[redacted]" in line for _, line in lines)
    assert found_in(lines) == []
    assert found_in([("stdout", "\n".join(dev.lines).encode())]) == []
    status, page = get(f"{dev.url}/metrics")
    assert (status, found_in([("metrics", page.encode())])) == (200, [])
