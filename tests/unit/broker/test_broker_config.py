"""What the embedded broker writes into server.properties."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams.broker.config import controller_properties, render, server_properties
from streams.broker.member import Member, NodePorts, alone
from streams.errors import BrokerError

LOGS = Path("/data/kafka")
ALONE = alone("id", 21_001, 21_002)
THREE = {id_: NodePorts(21_000 + id_, 22_000 + id_, 23_000 + id_) for id_ in (1, 2, 3)}
SECOND = Member("id", 2, THREE[2], THREE)


def test_every_listener_is_on_loopback() -> None:
    properties = server_properties(LOGS, ALONE)

    assert properties["listeners"] == "CLIENTS://127.0.0.1:21001,CONTROLLER://127.0.0.1:21002"
    assert properties["advertised.listeners"] == "CLIENTS://127.0.0.1:21001"
    assert properties["controller.quorum.voters"] == "1@127.0.0.1:21002"


def test_nodes_of_a_cluster_reach_each_other_at_ports_of_their_own() -> None:
    properties = server_properties(LOGS, SECOND)

    assert properties["node.id"] == "2"
    assert properties["listeners"] == (
        "CLIENTS://127.0.0.1:21002,BROKERS://127.0.0.1:22002,CONTROLLER://127.0.0.1:23002"
    )
    assert properties["advertised.listeners"] == (
        "CLIENTS://127.0.0.1:21002,BROKERS://127.0.0.1:22002,CONTROLLER://127.0.0.1:23002"
    )
    assert properties["inter.broker.listener.name"] == "BROKERS"
    assert properties["controller.quorum.voters"] == (
        "1@127.0.0.1:23001,2@127.0.0.1:23002,3@127.0.0.1:23003"
    )


def test_what_stands_before_the_nodes_is_advertised() -> None:
    between = {id_: NodePorts(26_000 + id_, 24_000 + id_, 25_000 + id_) for id_ in THREE}
    properties = server_properties(LOGS, Member("id", 2, THREE[2], between))

    assert "BROKERS://127.0.0.1:22002" in properties["listeners"]
    assert properties["advertised.listeners"] == (
        "CLIENTS://127.0.0.1:26002,BROKERS://127.0.0.1:24002,CONTROLLER://127.0.0.1:25002"
    )
    assert properties["controller.quorum.voters"].startswith("1@127.0.0.1:25001,")


@pytest.mark.parametrize(
    ("name", "alone", "among_others"),
    [
        ("default.replication.factor", "1", "3"),
        ("min.insync.replicas", "1", "2"),
        ("offsets.topic.replication.factor", "1", "3"),
        ("transaction.state.log.replication.factor", "1", "3"),
        ("transaction.state.log.min.isr", "1", "2"),
        ("share.coordinator.state.topic.replication.factor", "1", "3"),
        ("share.coordinator.state.topic.min.isr", "1", "2"),
        ("unclean.leader.election.enable", "false", "false"),
        ("controlled.shutdown.enable", "false", "true"),
        ("broker.session.timeout.ms", "3600000", "9000"),
    ],
)
def test_three_nodes_keep_three_copies(name: str, alone: str, among_others: str) -> None:
    assert server_properties(LOGS, ALONE)[name] == alone
    assert server_properties(LOGS, SECOND)[name] == among_others


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("offsets.topic.replication.factor", "1"),
        ("transaction.state.log.replication.factor", "1"),
        ("transaction.state.log.min.isr", "1"),
        ("auto.create.topics.enable", "false"),
        ("group.initial.rebalance.delay.ms", "0"),
        ("group.min.session.timeout.ms", "1000"),
    ],
)
def test_one_node_serves_groups_and_transactions(name: str, value: str) -> None:
    assert server_properties(LOGS, ALONE)[name] == value


def test_a_chunk_of_one_mebibyte_fits_with_its_overhead() -> None:
    assert int(server_properties(LOGS, ALONE)["message.max.bytes"]) > 1024 * 1024 + 64 * 1024


def test_a_comma_in_the_path_is_refused_since_kafka_reads_two_directories() -> None:
    with pytest.raises(BrokerError, match="comma"):
        server_properties(Path("/a,b"), ALONE)


def test_the_controller_alone_is_the_same_node_without_a_broker() -> None:
    server = server_properties(LOGS, ALONE)
    alone = controller_properties(server)

    assert (alone["process.roles"], alone["listeners"]) == (
        "controller",
        "CONTROLLER://127.0.0.1:21002",
    )
    for name in ("node.id", "log.dirs", "controller.quorum.voters", "num.io.threads"):
        assert alone[name] == server[name]


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("C:\\x", "C:\\\\x"),
        ("two\nlines", "two\\nlines"),
        (" lead", "\\ lead"),
        ("dätä", "d\\u00e4t\\u00e4"),
        ("\U0001f30a", "\\ud83c\\udf0a"),
    ],
)
def test_values_are_escaped_as_java_reads_them(value: str, written: str) -> None:
    assert render({"k": value}) == f"k={written}\n"
