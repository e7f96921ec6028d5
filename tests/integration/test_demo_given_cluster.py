"""A demo on a given cluster leaves nothing behind, and touches nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from support.conditions import PATIENCE_SECONDS, eventually
from support.kafka_under_test import KafkaUnderTest
from support.positions import set_positions
from typer.testing import CliRunner

from streams.cli.main import application
from streams.demo.run.given_cluster import prefixed, removed_afterwards
from streams.errors import ConfigError
from streams.kafka.admin import admin_client
from streams.kafka.clients import consumer_config
from streams.settings import Settings, load_settings
from streams.topology.apply import apply
from streams.topology.load import load
from streams.topology.plan import Consent


@pytest.mark.broker
def test_its_topics_and_groups_are_gone_afterwards_and_no_other_is(
    kafka: KafkaUnderTest, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    other = new_topic()
    theirs = load_settings(
        {}, bootstrap=kafka.bootstrap, kafka=kafka.client_settings, data_dir=tmp_path
    )
    admin, told = admin_client(theirs), list[str]()
    ours = prefixed(theirs)
    with pytest.raises(KeyError):
        _fail_on(ours, told)

    def gone() -> bool:  # the broker's list of topics follows a moment after a deletion
        listed = admin.list_topics(timeout=PATIENCE_SECONDS).topics
        assert other in listed
        return not any(name.startswith(ours.topic_prefix) for name in listed)

    eventually(gone, what="the topics are gone")
    groups = admin.list_consumer_groups().result().valid
    assert not [each for each in groups if each.group_id.startswith(ours.topic_prefix)]
    assert ours.topic_prefix in told[0]
    assert f"removed {len(load().topics)} topics and 1 consumer groups" in told[-1]


def _fail_on(settings: Settings, told: list[str]) -> None:
    """A run that fails in its middle."""
    with removed_afterwards(settings, told.append):
        apply(load(), settings, Consent(unsafe=True))
        _commit(consumer_config(settings, "dedup"), f"{settings.topic_prefix}events")
        raise KeyError


def _commit(config: dict[str, Any], topic: str) -> None:
    consumer = Consumer(config)
    set_positions(consumer, [TopicPartition(topic, 0, 0)])
    consumer.close()


def test_a_cluster_of_the_settings_is_not_taken_without_being_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TIDEGATE_BOOTSTRAP", "kafka:9092")
    ended = CliRunner().invoke(application(["demo"]), ["demo", "--events", "30"])
    assert isinstance(ended.exception, ConfigError)
    assert "run it there with --bootstrap kafka:9092" in str(ended.exception)
