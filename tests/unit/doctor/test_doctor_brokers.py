"""What is wrong with brokers and their settings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from streams.doctor import brokers
from streams.doctor.cluster_view import Brokers
from streams.doctor.finding import Finding, Unseen
from streams.settings import Settings
from streams.topology.load import load

SESSION = Settings(session_seconds=10)
THREE = {1: "a:9092", 2: "b:9092", 3: "c:9092"}
GOOD = {
    "transaction.state.log.replication.factor": "3",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "unclean.leader.election.enable": "false",
    "auto.create.topics.enable": "false",
    "group.min.session.timeout.ms": "6000",
    "group.max.session.timeout.ms": "1800000",
    "transaction.max.timeout.ms": "900000",
    "offsets.retention.minutes": "10080",
    "process.roles": "broker",
}
SINCE_4_3 = {"group.consumer.assignment.interval.ms": "1000"}


def shown(findings: Iterable[Finding]) -> list[tuple[str, str]]:
    return [(each.status, each.text) for each in findings]


def settings_of(ids: Iterable[int] = (1, 2, 3), **changed: Any) -> dict[int, dict[str, Any]]:
    return {id_: GOOD | {k.replace("_", "."): v for k, v in changed.items()} for id_ in ids}


@pytest.mark.parametrize(
    ("nodes", "embedded", "status"),
    [(THREE, False, "ok"), ({1: "a:1"}, False, "warn"), ({1: "a:1"}, True, "ok")],
)
def test_one_node_is_enough_for_the_embedded_broker_alone(
    nodes: dict[int, str], embedded: bool, status: str
) -> None:
    (found,) = brokers.number(Brokers(nodes, 1), embedded=embedded)
    assert found.status == status


def test_settings_as_wanted_are_ok() -> None:
    (found,) = brokers.broker_settings(settings_of(), SESSION, load())
    assert found.status == "ok"


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        ("transaction.state.log.replication.factor", "1", "fail"),
        ("offsets.topic.replication.factor", "2", "fail"),
        ("transaction.state.log.min.isr", "1", "fail"),
        ("unclean.leader.election.enable", "true", "fail"),
        ("auto.create.topics.enable", "true", "warn"),
        ("group.min.session.timeout.ms", "10001", "fail"),
        ("group.max.session.timeout.ms", "9000", "fail"),
        ("transaction.max.timeout.ms", "5000", "fail"),
        ("offsets.retention.minutes", "1440", "warn"),
    ],
)
def test_each_setting_that_is_wrong_is_named_with_its_broker_and_remedy(
    name: str, value: str, status: str
) -> None:
    found = {**settings_of(), 2: GOOD | {name: value}}
    (told,) = brokers.broker_settings(found, SESSION, load())
    assert told.status == status
    assert f"{name} is {value} on broker 2" in told.text
    assert told.remedy is not None
    assert f"set {name} to" in told.remedy


def test_the_session_of_the_settings_is_what_brokers_are_measured_by() -> None:
    long = Settings(session_seconds=30)
    found = list(
        brokers.broker_settings(settings_of(group_max_session_timeout_ms="20000"), long, None)
    )
    assert [each.status for each in found] == ["fail"]


def test_a_single_node_is_not_asked_for_replicas() -> None:
    one = settings_of([1], transaction_state_log_replication_factor="1")
    (found,) = brokers.broker_settings(one, SESSION, load())
    assert found.status == "ok"


def test_nothing_is_ok_where_brokers_show_nothing() -> None:
    blind: dict[int, dict[str, str | None]] = {1: {}, 2: {}, 3: {}}
    for found in (blind, {}):
        statuses = [f.status for f in brokers.broker_settings(found, SESSION, load())]
        statuses += [f.status for f in brokers.version(found, None)]
        assert statuses == ["skipped", "skipped"]
    assert [f.status for f in controllers(Brokers(THREE, 1), {})] == ["skipped"]


@pytest.mark.parametrize("value", [None, "", "many"])
def test_a_value_that_cannot_be_read_is_skipped_and_not_ok(value: str | None) -> None:
    found = list(
        brokers.broker_settings(settings_of(transaction_max_timeout_ms=value), SESSION, load())
    )
    assert [each.status for each in found] == ["skipped"]


def test_the_fault_of_kafka_4_3_is_named_where_it_can_be() -> None:
    (found,) = brokers.version({1: GOOD | SINCE_4_3}, None)
    assert found.status == "warn"
    assert "KAFKA-20734" in found.text


@pytest.mark.parametrize(
    "found", [{1: GOOD}, {1: GOOD | {"inter.broker.protocol.version": "3.9-IV0"}}]
)
def test_an_older_kafka_does_not_have_it(found: dict[int, dict[str, str | None]]) -> None:
    (told,) = brokers.version(found, None)
    assert told.status == "ok"


def test_a_kafka_that_tidegate_started_avoids_it() -> None:
    (found,) = brokers.version({1: GOOD | SINCE_4_3}, "4.3.1")
    assert found.status == "ok"


def controllers(found: Brokers, settings: Any) -> list[Finding]:
    return list(brokers.controller(found, settings, "k:9092"))


def test_what_cannot_be_seen_of_version_and_controller_is_skipped() -> None:
    hidden = Unseen("no right")
    (version,) = brokers.version(hidden, None)
    (controller,) = controllers(Brokers(THREE, 1), hidden)
    assert (version.status, controller.status) == ("skipped", "skipped")


def test_a_controller_is_seen_without_kraft_alone() -> None:
    zookeeper = settings_of(process_roles="")
    assert [f.status for f in controllers(Brokers(THREE, 2), zookeeper)] == ["ok"]
    assert [f.status for f in controllers(Brokers(THREE, 2), settings_of())] == ["skipped"]
    assert [f.status for f in controllers(Brokers(THREE, None), zookeeper)] == ["fail"]


def test_kafkas_own_topics_need_replicas_whatever_the_settings_say_now() -> None:
    found = Brokers(THREE, 1, {"__consumer_offsets": 3, "__transaction_state": 1})
    ((status, text),) = shown(brokers.internal_topics(found))
    assert status == "fail"
    assert "__transaction_state has 1 replica" in text
    assert [s for s, _ in shown(brokers.internal_topics(Brokers(THREE, 1)))] == ["skipped"]
    assert shown(brokers.internal_topics(Brokers({1: "a:1"}, 1, {"__consumer_offsets": 1}))) == []
