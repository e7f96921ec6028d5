"""`tidegate events seek`: a reader's group goes on elsewhere, as planned and only at rest."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from support.conditions import eventually
from support.kafka_under_test import KafkaUnderTest
from support.operator_cluster import Cluster, make_cluster, make_event
from support.positions import set_positions
from typer.testing import CliRunner, Result

from streams.api.events.cli import events

pytestmark = pytest.mark.broker

Seek = Callable[..., Result]


@pytest.fixture
def cluster(kafka: KafkaUnderTest, tmp_path: Path) -> Cluster:
    """With five events of one tenant, each in a transaction of its own: ten offsets."""
    made = make_cluster(kafka.bootstrap, kafka.client_settings, tmp_path)
    for number in range(5):
        made.write(make_event(f"a{number}"))
    return made


@pytest.fixture
def seek(cluster: Cluster, kafka: KafkaUnderTest) -> Seek:
    passed = {
        f"TIDEGATE_KAFKA_{name.upper().replace('.', '_')}": value
        for name, value in kafka.client_settings.items()
    }
    environ = {"TIDEGATE_TOPIC_PREFIX": cluster.settings.topic_prefix, **passed}

    def run(*words: str) -> Result:
        given = ["seek", "--bootstrap", kafka.bootstrap, *words]
        return CliRunner().invoke(events, given, env=environ)

    return run


@pytest.fixture
def reader(cluster: Cluster) -> Iterator[Consumer]:
    """A reader whose group has an offset at the topic's second event."""
    group = f"{cluster.settings.topic_prefix}reader"
    made = Consumer(cluster.settings.client(**{"group.id": group, "auto.offset.reset": "earliest"}))
    place = TopicPartition(cluster.settings.topic_prefix + "events", cluster.home("acme"), 2)
    set_positions(made, [place])
    yield made
    made.close()


def planned(seek: Seek, *words: str) -> dict[str, Any]:
    result = seek(*words, "--json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_a_plan_changes_nothing_and_applying_it_does(
    cluster: Cluster, seek: Seek, reader: Consumer
) -> None:
    group, home = f"{cluster.settings.topic_prefix}reader", cluster.home("acme")
    place = TopicPartition(cluster.settings.topic_prefix + "events", home)
    told = planned(seek, "--group", group, "--to", "end")
    assert {"partition": home, "from": 2, "to": 10, "asked": None} in told["moves"]
    assert len(told["moves"]) == cluster.topology.partitions
    assert reader.committed([place])[0].offset == 2
    shown = seek("--group", group, "--to", f"{home}:4", "--apply")
    assert (shown.exit_code, "+2" in shown.stdout) == (0, True), shown.output
    assert reader.committed([place])[0].offset == 4
    assert planned(seek, "--group", group, "--to", "start", "--apply")["applied"]
    assert reader.committed([place])[0].offset == 0
    assert planned(seek, "--group", group, "--to", "1h")["moves"][home]["to"] == 0
    assert planned(seek, "--group", group, "--to", f"{home}:99")["moves"] == [
        {"partition": home, "from": 0, "to": 10, "asked": 99}
    ]


def test_it_sets_the_group_that_it_is_given_also_where_all_clients_are_told_another(
    cluster: Cluster, seek: Seek, reader: Consumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix, home = cluster.settings.topic_prefix, cluster.home("acme")
    other = Consumer(cluster.settings.client(**{"group.id": f"{prefix}other"}))
    place = TopicPartition(prefix + "events", home)
    monkeypatch.setenv("TIDEGATE_KAFKA_GROUP_ID", f"{prefix}other")
    told = planned(seek, "--group", f"{prefix}reader", "--to", f"{home}:4", "--apply")
    assert told["moves"] == [{"partition": home, "from": 2, "to": 4, "asked": None}]
    assert reader.committed([place])[0].offset == 4
    assert other.committed([place])[0].offset < 0
    other.close()


def test_what_must_not_or_cannot_be_set_is_refused(
    cluster: Cluster, seek: Seek, reader: Consumer
) -> None:
    prefix, home = cluster.settings.topic_prefix, cluster.home("acme")
    for words, code, told in (
        (("--group", "nobody", "--to", "end"), 1, "there is no group 'nobody'"),
        (("--group", f"{prefix}dedup", "--to", "end"), 2, "one of Tidegate's own"),
        (("--group", f"{prefix}reader", "--to", "2999-01-01T00:00:00Z"), 2, "in the future"),
        (("--group", f"{prefix}reader", "--to", "99:1"), 2, "no partition 99"),
        (("--group", f"{prefix}reader", "--to", "end", "--to", "start"), 2, "give one time"),
        (("--group", f"{prefix}reader", "--to", f"{home}:1", "--to", f"{home}:2"), 2, "twice"),
        (("--group", f"{prefix}reader", "--to", "soon"), 2, "is no time"),
    ):
        result = seek(*words)
        assert (result.exit_code, told in " ".join(result.output.split())) == (code, True), (
            words,
            result.output,
        )
    wider = cluster.settings.data_dir / "wider.yaml"
    wider.write_text("partitions: 7\n")
    result = seek("--group", f"{prefix}reader", "--to", "end", "--topology", str(wider))
    assert (result.exit_code, "the topology declares 7" in result.stderr) == (2, True)
    assert planned(seek, "--group", f"{prefix}new", "--to", "end", "--create")["moves"]
    reader.subscribe([prefix + "events"])
    eventually(lambda: reader.poll(0.1) or reader.assignment(), what="somebody reads")
    result = seek("--group", f"{prefix}reader", "--to", "end", "--apply")
    assert (result.exit_code, "is alive: end its processes" in result.stderr) == (1, True)


def test_the_end_lies_before_what_is_not_committed_yet(cluster: Cluster, seek: Seek) -> None:
    """A reader that began behind it would never see these events, which are committed later."""
    group, home = f"{cluster.settings.topic_prefix}new", cluster.home("acme")
    producer = Producer(cluster.settings.client(**{"transactional.id": group}))
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(cluster.settings.topic_prefix + "events", b"late", partition=home)
    assert producer.flush(30) == 0
    moves = planned(seek, "--group", group, "--to", "end", "--create")["moves"]
    producer.abort_transaction(30)
    assert moves[home]["to"] == 10
