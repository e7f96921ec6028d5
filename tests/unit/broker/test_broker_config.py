"""What the embedded broker writes into server.properties."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams.broker.config import (
    BrokerSecurity,
    controller_properties,
    render,
    server_properties,
)
from streams.errors import BrokerError, ConfigError

LOGS = Path("/data/kafka")


def test_every_listener_is_on_loopback() -> None:
    properties = server_properties(LOGS, 21_001, 21_002)

    assert properties["listeners"] == "CLIENTS://127.0.0.1:21001,CONTROLLER://127.0.0.1:21002"
    assert properties["advertised.listeners"] == "CLIENTS://127.0.0.1:21001"
    assert properties["controller.quorum.voters"] == "1@127.0.0.1:21002"


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
    assert server_properties(LOGS, 1, 2)[name] == value


def test_a_chunk_of_one_mebibyte_fits_with_its_overhead() -> None:
    assert int(server_properties(LOGS, 1, 2)["message.max.bytes"]) > 1024 * 1024 + 64 * 1024


def test_extra_overrides_a_default_but_not_the_address() -> None:
    assert server_properties(LOGS, 1, 2, extra={"num.io.threads": "9"})["num.io.threads"] == "9"
    with pytest.raises(ConfigError, match=r"listeners.*take it out of `extra`"):
        server_properties(LOGS, 1, 2, extra={"listeners": "PLAINTEXT://0.0.0.0:9092"})


def test_a_comma_in_the_path_is_refused_since_kafka_reads_two_directories() -> None:
    with pytest.raises(BrokerError, match="comma"):
        server_properties(Path("/a,b"), 1, 2)


def test_the_controller_alone_is_the_same_node_without_a_broker() -> None:
    server = server_properties(LOGS, 21_001, 21_002, extra={"num.io.threads": "9"})
    alone = controller_properties(server)

    assert (alone["process.roles"], alone["listeners"]) == (
        "controller", "CONTROLLER://127.0.0.1:21002"
    )  # fmt: skip
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


@pytest.fixture
def security(tmp_path: Path) -> BrokerSecurity:
    for name in ("cert.pem", "key.pem", "ca.pem"):
        (tmp_path / name).write_text(f"-----BEGIN {name}-----\n")
    return BrokerSecurity(
        "tide", 'pa"ss\\word', tmp_path / "cert.pem", tmp_path / "key.pem", tmp_path / "ca.pem"
    )


def test_security_covers_the_controllers_listener_too(security: BrokerSecurity) -> None:
    properties = server_properties(LOGS, 1, 2, security)

    protocols = properties["listener.security.protocol.map"]
    assert protocols == "CLIENTS:SASL_SSL,CONTROLLER:SASL_SSL"
    assert r'password="pa\"ss\\word"' in properties["listener.name.clients.plain.sasl.jaas.config"]
    assert "PLAINTEXT" not in render(properties)


def test_the_password_is_not_shown_by_repr(security: BrokerSecurity) -> None:
    assert security.password not in repr(security)


def test_a_username_that_would_change_the_login_configuration_is_refused() -> None:
    with pytest.raises(ConfigError, match="username"):
        BrokerSecurity('x="y" user_admin', "p", LOGS, LOGS, LOGS)


def test_a_missing_key_file_is_named(security: BrokerSecurity) -> None:
    security.key_file.unlink()
    with pytest.raises(BrokerError, match=r"key\.pem"):
        server_properties(LOGS, 1, 2, security)
