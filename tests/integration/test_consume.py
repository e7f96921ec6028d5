"""`streams.consume` on a real broker: databases and topics hold what each event makes, once."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.cimpl import NewTopic
from support.conditions import PATIENCE_SECONDS, eventually
from support.kafka_under_test import KafkaUnderTest
from support.operator_cluster import Cluster, make_cluster, make_event
from support.topics import create_topics

from streams import EventsPurged, KafkaSink, SqliteSink, consume
from streams.errors import ConfigError
from streams.kafka.admin import admin_client
from streams.serde.records import Envelope

pytestmark = pytest.mark.broker

ROOT = Path(__file__).parents[2]
PROGRAMS = (ROOT / "docs/read-the-events.md").read_text().split("```python\n")[2:4]
TO_SQLITE, TO_KAFKA = (part.split("```")[0] for part in PROGRAMS)


@pytest.fixture
def cluster(kafka: KafkaUnderTest, tmp_path: Path) -> Cluster:
    if kafka.client_settings:
        pytest.skip("the page's programs have no settings for a secured cluster")
    return make_cluster(kafka.bootstrap, {}, tmp_path)


@pytest.fixture(autouse=True)
def prefixed(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_TOPIC_PREFIX", cluster.settings.topic_prefix)
    monkeypatch.setenv("TIDEGATE_BOOTSTRAP", cluster.settings.bootstrap)


def run(program: str, cluster: Cluster) -> str:
    """What a program of the page prints, in the test's own folder."""
    program = program.replace("127.0.0.1:9092", cluster.settings.bootstrap)
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=cluster.settings.data_dir,
        timeout=PATIENCE_SECONDS,
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    return done.stdout.splitlines()[-1]


def written(cluster: Cluster, *events: Envelope) -> None:
    """Events, once a committed reader is told of all of them: that is a moment after the commit."""
    cluster.write(make_event("aborted"), commit=False)
    cluster.write(*events)
    eventually(
        lambda: (
            consume(
                lambda *_: None,
                group=os.urandom(8).hex(),
                until_end=True,
                into=SqliteSink(cluster.settings.data_dir / f"{os.urandom(8).hex()}.db"),
            )
            == len(events)
        ),
        what="all events are committed for readers",
    )


def test_the_pages_program_has_each_event_once_in_its_database(cluster: Cluster) -> None:
    written(cluster, make_event("k1"), make_event("k2"), make_event("b", "bolt"))
    assert run(TO_SQLITE, cluster) == "2 events"
    assert run(TO_SQLITE, cluster) == "0 events"
    db = sqlite3.connect(cluster.settings.data_dir / "orders.db")
    assert sorted(db.execute("SELECT id, type FROM orders")) == [
        ("evt_k1", "order.paid"),
        ("evt_k2", "order.paid"),
    ]
    db.close()


def test_what_goes_to_other_topics_is_there_once_after_a_kill(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_SESSION_SECONDS", "6")
    out = f"{cluster.settings.topic_prefix}orders.large"
    created = NewTopic(out, 1, 1)
    create_topics(cluster.settings.bootstrap, admin_client(cluster.settings), [created])
    events = [make_event(f"k{n}", ("acme", "bolt")[n % 2]) for n in range(200)]
    written(cluster, *events)
    program = TO_KAFKA.replace("orders.large", out)
    slow = program.replace("    send(", "    import time; time.sleep(0.01)\n    send(", 1)
    slow = slow.replace("127.0.0.1:9092", cluster.settings.bootstrap)
    with subprocess.Popen(
        [sys.executable, "-c", slow], env={**os.environ, "PYTHONPATH": str(ROOT)}
    ) as reader:
        eventually(lambda: end(cluster, out) >= 20, what="it is in the middle of a transaction")
        reader.kill()
    run(program, cluster)
    assert sent(cluster, out) == Counter(event.event_id for event in events)


@pytest.mark.long
def test_a_handler_that_is_slower_than_a_transaction_may_last_gets_on(cluster: Cluster) -> None:
    """Kafka ends a transaction after 10 s; a part may hold events for many minutes."""
    out = f"{cluster.settings.topic_prefix}orders.large"
    created = NewTopic(out, 1, 1)
    create_topics(cluster.settings.bootstrap, admin_client(cluster.settings), [created])
    events = [make_event(f"k{n}") for n in range(30)]
    written(cluster, *events)

    def slow(event: Envelope, send: Any) -> None:
        send(out, event.event_id.encode())
        threading.Event().wait(0.7)

    into = KafkaSink("slow-0")
    assert consume(slow, group="slow", into=into, until_end=True) == len(events)
    assert sent(cluster, out) == Counter(event.event_id for event in events)


def test_a_topic_that_is_not_there_is_named(cluster: Cluster) -> None:
    written(cluster, make_event("k"))

    def handle(event: Envelope, send: Any) -> None:
        send("no.such", event.event_id.encode())

    with pytest.raises(ConfigError, match=r"there is no topic .no\.such.: make it") as caught:
        consume(handle, group="absent", into=KafkaSink("absent-0"), until_end=True)
    assert "transaction was open" not in str(caught.value.__notes__)


def test_no_setting_of_the_environment_loses_the_event_of_a_failed_transaction(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A consumer that commits by itself would go on behind what was rolled back."""
    for name, value in (("ENABLE_AUTO_COMMIT", "true"), ("AUTO_OFFSET_RESET", "latest")):
        monkeypatch.setenv(f"TIDEGATE_KAFKA_{name}", value)
    written(cluster, make_event("a1"), make_event("a2"))
    seen = list[str]()

    def failing(event: Envelope, _: Any) -> None:
        raise ValueError(event.event_id)

    for _ in range(2):
        with pytest.raises(ValueError, match="evt_a1"):
            consume(failing, group="kept", into=KafkaSink("kept-0"), until_end=True)
    consume(
        lambda event, _: seen.append(event.event_id),
        group="kept",
        into=KafkaSink("kept-0"),
        until_end=True,
    )
    assert seen == ["evt_a1", "evt_a2"]


def end(cluster: Cluster, topic: str) -> int:
    """The end of a topic of one partition, with what is not committed."""
    reader = Consumer(cluster.settings.client(**{"group.id": "end"}))
    try:
        return int(
            reader.get_watermark_offsets(TopicPartition(topic, 0), timeout=PATIENCE_SECONDS)[1]
        )
    finally:
        reader.close()


def sent(cluster: Cluster, topic: str) -> Counter[str]:
    """How often each value stands on a topic, as committed."""
    reader = Consumer(
        cluster.settings.client(
            **{
                "group.id": "sent",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
            }
        )
    )
    reader.assign([TopicPartition(topic, 0, 0)])
    found, last = Counter[str](), end(cluster, topic)

    def complete() -> bool:
        for message in reader.consume(1_000, 0.1):
            if message.error() is None:
                found[(message.value() or b"").decode()] += 1
        return bool(reader.position([TopicPartition(topic, 0)])[0].offset >= last)

    eventually(complete, what="the topic is read to its end")
    reader.close()
    return found


def test_events_that_were_purged_unread_are_told_and_passed_over_only_if_asked(
    cluster: Cluster, tmp_path: Path
) -> None:
    def read(**more: Any) -> int:
        into = SqliteSink(tmp_path / "seen.db")
        return consume(lambda *_: None, group="late", into=into, until_end=True, **more)

    written(cluster, make_event("a1"))
    assert read() == 1
    cluster.write(make_event("a2"))
    cluster.write(make_event("a3"))
    name, home = cluster.settings.topic_prefix + "events", cluster.home("acme")
    admin = admin_client(cluster.settings)
    for deleted in admin.delete_records([TopicPartition(name, home, -1)]).values():
        deleted.result(10)
    cluster.write(make_event("a4"))
    with pytest.raises(EventsPurged, match="skip_purged"):
        read()
    eventually(lambda: read(skip_purged=True) == 1, what="the event after the gap is handled")


def test_a_reader_that_has_read_everything_misses_nothing_when_it_is_purged(
    cluster: Cluster, tmp_path: Path
) -> None:
    """The marker behind the last event is purged with it."""

    def read() -> int:
        into = SqliteSink(tmp_path / "seen.db")
        return consume(lambda *_: None, group="quiet", into=into, until_end=True)

    written(cluster, make_event("a1"))
    assert read() == 1
    name, home = cluster.settings.topic_prefix + "events", cluster.home("acme")
    admin = admin_client(cluster.settings)
    for deleted in admin.delete_records([TopicPartition(name, home, -1)]).values():
        deleted.result(10)
    assert read() == 0


@pytest.mark.parametrize("seconds", [0.0, 0.05])
def test_a_reader_that_goes_back_within_what_it_has_fetched_still_comes_to_the_end(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    monkeypatch.setattr("streams.event_reader.handling._LONGEST_SECONDS", seconds)
    events = [make_event(f"k{n}", ("acme", "bolt")[n % 2]) for n in range(8)]
    written(cluster, *events)
    seen = Counter[str]()

    def slow(event: Envelope, _: Any) -> None:
        seen[event.event_id] += 1
        threading.Event().wait(0.02)

    into = SqliteSink(tmp_path / "seen.db")
    assert consume(slow, group="slow", into=into, until_end=True) == 8
    assert seen == Counter(event.event_id for event in events)
