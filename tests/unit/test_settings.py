"""Settings: what of them may be seen."""

from __future__ import annotations

import traceback
from ipaddress import ip_address
from pathlib import Path

import pytest

from streams.delivery.egress.configured import egress_policy
from streams.delivery.egress.policy import EgressPolicy
from streams.errors import ConfigError
from streams.kafka.clients import consumer_config, producer_config
from streams.settings import Settings, load_settings


def test_passwords_do_not_stand_in_the_settings_text() -> None:
    environ = {"TIDEGATE_KAFKA_SASL_PASSWORD": "hunter2", "TIDEGATE_ADMIN_TOKEN": "hunter2"}
    settings = load_settings(environ)
    assert settings.client()["sasl.password"] == "hunter2"
    assert "hunter2" not in repr(settings) + str(settings)


def test_the_environment_adds_to_the_clients_settings_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "t.toml"
    path.write_text('[kafka]\n"security.protocol" = "SASL_SSL"\n"sasl.username" = "file"\n')
    named = {"TIDEGATE_CONFIG": str(path)}
    password = {"TIDEGATE_KAFKA_SASL_PASSWORD": "x"}
    assert load_settings(named | password).kafka == {
        "security.protocol": "SASL_SSL",
        "sasl.username": "file",
        "sasl.password": "x",
    }
    assert load_settings(named | {"TIDEGATE_KAFKA_SASL_USERNAME": "env"}).kafka == {
        "security.protocol": "SASL_SSL",
        "sasl.username": "env",
    }


def test_a_password_of_the_wrong_kind_is_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "t.toml"
    path.write_text('[kafka]\n"sasl.password" = 77123\n')
    with pytest.raises(ConfigError, match=r"kafka\.sasl\.password") as caught:
        load_settings({"TIDEGATE_CONFIG": str(path)})
    assert "77123" not in "".join(traceback.format_exception(caught.value))


def test_a_file_of_settings_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.toml"
    path.write_bytes(b"\xff\xfe")
    for named in (path, tmp_path, tmp_path / "none.toml"):
        with pytest.raises(ConfigError, match=str(named)):
            load_settings({"TIDEGATE_CONFIG": str(named)})


def test_one_setting_is_the_timeout_of_sessions_and_transactions() -> None:
    assert Settings.model_fields["session_seconds"].default == 10
    settings = load_settings({"TIDEGATE_SESSION_SECONDS": "45.5"})
    config = consumer_config(settings, "dedup")
    assert (config["session.timeout.ms"], config["heartbeat.interval.ms"]) == (45_500, 9_100)
    assert settings.session_timeout_ms == 45_500
    for wrong in ("0.5", "301"):  # above 300 the client's own limits no longer fit together
        with pytest.raises(ConfigError, match="TIDEGATE_SESSION_SECONDS"):
            load_settings({"TIDEGATE_SESSION_SECONDS": wrong})


def test_no_setting_of_kafkas_clients_makes_a_consumer_skip_records_or_read_aborted_ones() -> None:
    given = {
        "TIDEGATE_KAFKA_GROUP_ID": "theirs",
        "TIDEGATE_KAFKA_AUTO_OFFSET_RESET": "latest",
        "TIDEGATE_KAFKA_ENABLE_AUTO_COMMIT": "true",
        "TIDEGATE_KAFKA_ISOLATION_LEVEL": "read_uncommitted",
        "TIDEGATE_KAFKA_ENABLE_PARTITION_EOF": "false",
        "TIDEGATE_KAFKA_FETCH_WAIT_MAX_MS": "50",
    }
    for more, reset in (({}, "earliest"), ({"auto.offset.reset": "error"}, "error")):
        own = more | {"enable.partition.eof": True}
        config = consumer_config(load_settings(given, topic_prefix="t."), "dedup", **own)
        assert (config["group.id"], config["auto.offset.reset"]) == ("t.dedup", reset)
        assert (config["enable.auto.commit"], config["isolation.level"]) == (
            False,
            "read_committed",
        )
        assert (config["enable.partition.eof"], config["fetch.wait.max.ms"]) == (True, "50")


def test_no_setting_of_kafkas_clients_makes_a_producer_lose_or_repeat_records() -> None:
    given = {
        "TIDEGATE_KAFKA_ACKS": "1",
        "TIDEGATE_KAFKA_ENABLE_IDEMPOTENCE": "false",
        "TIDEGATE_KAFKA_TRANSACTIONAL_ID": "theirs",
        "TIDEGATE_KAFKA_LINGER_MS": "9",
    }
    config = producer_config(load_settings(given), **{"transactional.id": "ours", "linger.ms": 1})
    assert (config["acks"], config["enable.idempotence"]) == ("all", True)
    assert (config["transactional.id"], config["linger.ms"]) == ("ours", "9")


@pytest.mark.parametrize(
    ("session", "consumer", "producer"),
    [(1, 2_000, 1_000), (4, 4_000, 4_000), (30, 10_000, 10_000)],
)
def test_a_broker_that_hangs_is_given_up_soon(session: int, consumer: int, producer: int) -> None:
    settings = load_settings({"TIDEGATE_SESSION_SECONDS": str(session)})
    assert consumer_config(settings, "dedup")["socket.timeout.ms"] == consumer
    assert producer_config(settings)["socket.timeout.ms"] == producer
    assert settings.client()["socket.timeout.ms"] == 10_000


def test_where_outgoing_requests_may_go_is_a_matter_of_settings() -> None:
    given = {
        "TIDEGATE_EGRESS_ALLOW_NETWORKS": "10.0.0.0/8, fd00::/8",
        "TIDEGATE_EGRESS_DENY_PORTS": "8443",
        "TIDEGATE_EGRESS_OWN_HOSTS": "Hooks.example.com",
        "TIDEGATE_EGRESS_ALLOW_HTTP": "true",
    }
    policy = egress_policy(load_settings(given))
    reached = ("10.1.2.3", "fd00::1", "192.168.0.1")
    assert [policy.permits(ip_address(each)) for each in reached] == [True, True, False]
    assert {8443, 5432} <= policy.denied_ports
    assert policy.is_own("hooks.example.com", 443)
    assert policy.allow_http
    assert egress_policy(load_settings({})) == EgressPolicy()
    with pytest.raises(ConfigError, match="TIDEGATE_EGRESS_ALLOW_NETWORKS"):
        load_settings({"TIDEGATE_EGRESS_ALLOW_NETWORKS": "10.0.0.1/8"})
