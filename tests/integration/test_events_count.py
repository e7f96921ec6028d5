"""`tidegate events count` against a real broker: committed events alone, and each once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from support.conditions import eventually
from support.kafka_under_test import KafkaUnderTest
from support.operator_cluster import Cluster, make_cluster, make_event
from typer.testing import CliRunner, Result

from streams.api.events.cli import events
from streams.event_reader import scan
from streams.kafka.admin import admin_client

pytestmark = pytest.mark.broker

Count = Callable[..., Result]


@pytest.fixture
def cluster(kafka: KafkaUnderTest, tmp_path: Path) -> Cluster:
    return make_cluster(kafka.bootstrap, kafka.client_settings, tmp_path)


@pytest.fixture
def run(cluster: Cluster, kafka: KafkaUnderTest) -> Count:
    passed = {
        f"TIDEGATE_KAFKA_{name.upper().replace('.', '_')}": value
        for name, value in kafka.client_settings.items()
    }
    environ = {"TIDEGATE_TOPIC_PREFIX": cluster.settings.topic_prefix, **passed}

    def run(*words: str) -> Result:
        given = ["count", "--bootstrap", kafka.bootstrap, *words]
        return CliRunner().invoke(events, given, env=environ)

    return run


def counted(run: Count, *words: str) -> dict[str, Any]:
    result = run(*words, "--json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def soon(run: Count, count: int, *words: str) -> dict[str, Any]:
    """The answer once it has so many events: just after a commit, readers may not be told of it."""

    def found() -> dict[str, Any] | None:
        now = counted(run, *words)
        return now if now["events"] == count else None

    return eventually(found, what=f"{count} events")


def test_what_is_committed_is_counted_by_type_and_day(cluster: Cluster, run: Count) -> None:
    cluster.write(make_event("a1"), make_event("a2", event_type="order.refunded"))
    cluster.write(make_event("never"), commit=False)
    cluster.write(make_event("b1", "bolt", event_type="ticket.created", source="desk", subject="7"))
    everything = soon(run, 3)
    assert everything["by_type"] == {"order.paid": 1, "order.refunded": 1, "ticket.created": 1}
    assert sum(everything["by_day"].values()) == 3
    for words, events_ in (
        (("--tenant", "acme"), 2),
        (("--type", "order.*"), 2),
        (("--type", "order.paid", "--type", "ticket.*"), 2),
        (("--source", "desk"), 1),
        (("--subject", "7"), 1),
        (("--tenant", "bolt", "--type", "order.*"), 0),
        (("--since", "1h"), 3),
        (("--until", "1h"), 0),
        (("--since", "2h", "--until", "1h"), 0),
    ):
        assert counted(run, *words)["events"] == events_, words


def test_a_type_that_no_event_has_is_named_with_the_nearest(cluster: Cluster, run: Count) -> None:
    cluster.write(make_event("a1"))
    soon(run, 1)
    shown = run("--type", "order.payed")
    assert (shown.exit_code, shown.stdout) == (0, "0 events\n")
    assert "no event has a type 'order.payed' (did you mean 'order.paid'?)" in shown.stderr


def test_a_type_that_only_another_tenant_has_is_neither_named_nor_taken_for_one(
    cluster: Cluster, run: Count
) -> None:
    """G3: the two share a partition, so that one's events are read for the other."""
    home = cluster.home("acme")
    other = next(f"t{n}" for n in range(99) if cluster.home(f"t{n}") == home)
    cluster.write(make_event("a1"), make_event("o1", other, event_type="order.secret"))
    soon(run, 2)
    for type_ in ("order.secret", "order.secre"):
        (note,) = counted(run, "--tenant", "acme", "--type", type_)["notes"]
        assert note.startswith(f"no event has a type {type_!r}")
        assert "order.secret'?" not in note


def test_a_record_that_cannot_be_read_is_told_and_the_rest_is_counted(
    cluster: Cluster, run: Count
) -> None:
    home = cluster.home("acme")
    cluster.write(make_event("a1"), ("events", home, b"acme", b"no event"), make_event("a2"))
    found = soon(run, 2, "--tenant", "acme")
    assert found["unreadable"] == 1
    assert found["notes"][0].startswith("1 records cannot be read, and are not counted")


def test_a_time_before_the_oldest_record_is_told(cluster: Cluster, run: Count) -> None:
    cluster.write(make_event("a1"))
    cluster.write(make_event("a2"))
    place = TopicPartition(cluster.settings.topic_prefix + "events", cluster.home("acme"), 1)
    admin = admin_client(cluster.settings)  # without a name it would end before it has an answer
    for deleted in admin.delete_records([place]).values():
        deleted.result(10)
    found = soon(run, 1, "--since", "30d")
    assert "the topic does not go back that far" in found["notes"][0]
    home = cluster.home("acme")
    (note,) = counted(run, "--offsets", f"{home}:0-9")["notes"]
    assert note.startswith(f"1 of these offsets of partition {home}, from 0 on, are purged")


def test_times_that_make_no_sense_are_refused(run: Count) -> None:
    for words, told in (
        (("--since", "2999-01-01T00:00:00Z"), "2999-01-01T00:00:00Z is in the future"),
        (("--since", "1h", "--until", "2h"), "2h is not after --since 1h"),
        (("--since", "2026-99-01"), "is no time"),
    ):
        refused = run(*words)
        assert (refused.exit_code, told in refused.output) == (2, True), words


def test_a_cluster_without_the_topic_is_an_error_that_names_it(
    kafka: KafkaUnderTest, run: Count
) -> None:
    refused = (
        CliRunner().invoke(
            events,
            ["count", "--bootstrap", kafka.bootstrap],
            env={"TIDEGATE_TOPIC_PREFIX": "none."},
        )
        if not kafka.client_settings
        else run("--bootstrap", "127.0.0.1:1")
    )
    assert refused.exit_code == 1
    assert refused.stderr.startswith("error: ")


def test_a_topology_with_other_partitions_is_refused(run: Count, tmp_path: Path) -> None:
    """It would leave out partitions, and look for a tenant where its events are not."""
    file = tmp_path / "wider.yaml"
    file.write_text("partitions: 7\n")
    soon(run, 0)  # just after its creation the topic may not be known, and then has no width
    refused = run("--topology", str(file), "--tenant", "acme")
    assert refused.exit_code == 2
    assert "has 4 partitions, the topology declares 7" in refused.stderr


def test_a_partition_that_stops_to_answer_ends_the_scan(
    cluster: Cluster, run: Count, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.write(make_event("a1"))
    soon(run, 1)
    monkeypatch.setattr(scan, "_PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(scan.Scan, "_pass", lambda *_: None)
    refused = run("--tenant", "acme")
    assert refused.exit_code == 1
    assert "answer no longer" in refused.stderr
