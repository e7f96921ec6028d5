"""How a Faust application reaches Kafka, and what is said when Faust is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from unittest.mock import AsyncMock, Mock, patch

import pytest
from faust.transport.drivers.aiokafka import Transport

from streams.analytics.app import credentials, faust_app
from streams.analytics.committed import CommittedConsumer
from streams.errors import ConfigError
from streams.settings import load_settings
from streams.stages import STAGES
from streams.topology.load import load


def test_the_application_has_tidegates_address_prefix_and_group(tmp_path: Path) -> None:
    settings = load_settings(
        {}, bootstrap="a:1, b:2", topic_prefix="t.", data_dir=tmp_path, session_seconds=7
    )
    app = faust_app("mine", settings, table_standby_replicas=0)
    assert [str(url) for url in app.conf.broker_consumer] == ["kafka://a:1", "kafka://b:2"]
    assert (app.conf.id, app.conf.broker_session_timeout) == ("t.mine", 7)
    assert app.conf.table_standby_replicas == 0
    assert app.Transport.Consumer is CommittedConsumer


def test_an_application_is_not_named_as_a_group_of_the_pipeline(tmp_path: Path) -> None:
    """It would join that group, and take over the stage's positions."""
    for name in ("dedup", "analytics", "worker-default"):
        with pytest.raises(ConfigError, match="one of Tidegate's own"):
            faust_app(name, load_settings({}, data_dir=tmp_path))


async def test_a_table_is_used_once_the_brokers_tell_of_its_changelog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = faust_app("mine", load_settings({}, data_dir=tmp_path))
    told = iter([None, set[int](), {0, 1}])
    client, owner = AsyncMock(), AsyncMock()
    client.fetch_all_metadata.return_value = Mock(
        partitions_for_topic=lambda topic: next(told) if topic == "changelog" else None
    )
    monkeypatch.setattr(Transport, "_create_topic", created := AsyncMock())
    await app.transport._create_topic(owner, client, "changelog", 2, 1, compacting=True)
    created.assert_awaited_once_with(owner, client, "changelog", 2, 1, compacting=True)
    assert client.fetch_all_metadata.await_count == 3
    assert list(told) == []


def test_sasl_reaches_faust() -> None:
    given = credentials(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "u",
            "sasl.password": "p",
            "fetch.wait.max.ms": "5",
        }
    )
    assert given is not None
    assert (given.protocol.value, given.mechanism.value) == ("SASL_PLAINTEXT", "SCRAM-SHA-512")
    assert (given.username, given.password) == ("u", "p")
    assert credentials({}) is None


@pytest.mark.parametrize(
    ("kafka", "named"),
    [
        ({"security.protocol": "SASL_SSL", "sasl.oauthbearer.config": "x"}, "oauthbearer.config"),
        ({"security.protocol": "tls"}, "security.protocol=tls"),
        ({"security.protocol": "ssl", "ssl.ca.location": "/none"}, "TIDEGATE_KAFKA_SSL"),
    ],
)
def test_what_faust_cannot_do_is_refused_by_name(kafka: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        credentials(kafka)


def test_without_faust_the_command_says_what_to_install() -> None:
    with (
        patch("streams.stages.find_spec", return_value=None),
        pytest.raises(ConfigError, match=r"pip install 'tidegate\[analytics\]'"),
    ):
        STAGES["analytics"].run(load_settings({}), load())


def test_dev_demo_and_the_commands_need_no_faust() -> None:
    program = (
        "import sys; sys.modules.update(faust=None, aiokafka=None); "
        "import streams.cli.main, streams.cli.analytics, streams.demo.command, streams.dev.run"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
