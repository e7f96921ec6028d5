"""The consumer of docs/read-the-events.md reads the topic `events` as it stands on that page."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.kafka_under_test import KafkaUnderTest
from support.operator_cluster import make_cluster, make_event, running

from streams.serde import schemas
from streams.serde.codec import ENVELOPE

pytestmark = pytest.mark.broker

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/read-the-events.md").read_text()
PROGRAMS = [part.split("```")[0] for part in PAGE.split("```python\n")[1:]]
CONSUMER, TO_SQLITE, TO_KAFKA, WITH_REGISTRY, WITH_FILES = PROGRAMS


def test_the_pages_consumers_are_whole_and_have_at_most_ten_or_16_lines() -> None:
    for consumer in PROGRAMS:
        most = 10 if consumer in (TO_SQLITE, TO_KAFKA) else 16
        assert len([line for line in consumer.splitlines() if line]) <= most


@pytest.mark.parametrize("consumer", [CONSUMER, WITH_REGISTRY], ids=["alone", "with_registry"])
def test_the_pages_consumers_print_each_committed_event(
    kafka: KafkaUnderTest, tmp_path: Path, consumer: str
) -> None:
    if kafka.client_settings:
        pytest.skip("the page's consumer has no settings for a secured cluster")
    cluster = make_cluster(kafka.bootstrap, {}, tmp_path)
    prefix = cluster.settings.topic_prefix
    cluster.write(make_event("aborted"), commit=False)
    cluster.write(make_event("k1"), make_event("k2", "bolt", event_type="ticket"))
    program = consumer.replace("127.0.0.1:9092", kafka.bootstrap)
    program = program.replace('"my-analytics"', f'"{prefix}analytics"')
    program = program.replace('["events"]', f'["{prefix}events"]')
    program = program.replace('Context("events"', f'Context("{prefix}events"')
    with (
        running(cluster.settings, cluster.topology) as operator,
        subprocess.Popen(
            [sys.executable, "-c", program.replace("http://127.0.0.1:8080", operator.url)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        ) as reader,
    ):
        assert reader.stdout is not None
        printed = {reader.stdout.readline().strip() for _ in range(2)}
        reader.kill()
    assert printed == {"evt_k1 acme order.paid", "evt_k2 bolt ticket"}


def test_the_pages_example_of_a_frame_is_the_present_one() -> None:
    written = ENVELOPE.encode(make_event())
    newest = schemas.current("envelope")
    assert f"| `{written[:1].hex()}` |" in PAGE
    assert f"| `{written[1:5].hex(' ')}` | id {newest.id}," in PAGE
    assert f"`schemas/history/envelope.{newest.version}.avsc`" in PAGE
