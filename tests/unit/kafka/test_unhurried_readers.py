"""Readers for people ask the broker a few times a second, not once for each record.

The topics for whose rows a call of the operator waits are the exception.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from streams.dev.console.topic_follower import TopicFollower
from streams.event_reader import follow as following
from streams.event_reader.selection import Selection
from streams.kafka import tail as tails
from streams.kafka.failures import Outage
from streams.operator.read_model import positions
from streams.operator.read_model.fold_session import FoldSession
from streams.operator.resources import TABLES
from streams.settings import Settings

NOWHERE = Settings(bootstrap="127.0.0.1:1")


class Opened(Exception):
    """A consumer was made: the test has seen its settings."""


def view() -> None:
    FoldSession(NOWHERE, sqlite3.connect(":memory:"), lambda _: None, Outage())


def console() -> None:
    TopicFollower(NOWHERE, ["jobs"], lambda _: None)


def tail() -> None:
    next(following.follow(NOWHERE, {0: 0}, Selection()))


@pytest.mark.parametrize("read", [view, console, tail])
def test_the_broker_answers_it_four_times_a_second_or_when_it_has_a_megabyte(
    read: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    configs = list[dict[str, Any]]()

    def opened(config: dict[str, Any]) -> None:
        configs.append(config)
        raise Opened

    monkeypatch.setattr(positions, "spans", lambda *_: {})
    monkeypatch.setattr(positions, "resume", lambda *_: {})
    monkeypatch.setattr(positions, "fresh_at", lambda *_: None)
    monkeypatch.setattr(tails, "Consumer", opened)
    with suppress(Opened):
        read()
    (config,) = configs
    assert (config["fetch.min.bytes"], config["fetch.wait.max.ms"]) == (1_000_000, 250)


class Reading:
    """A consumer that notes which topics it reads."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.unhurried = config.get("fetch.min.bytes", 1) > 1
        self.topics = set[str]()

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        self.topics |= {each.topic for each in partitions}


def test_what_calls_of_the_operator_wait_for_is_read_at_once_and_the_flow_of_jobs_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened = list[Reading]()

    def reading(config: dict[str, Any]) -> Reading:
        opened.append(Reading(config))
        return opened[-1]

    starts = {(table.topic, 0): 0 for table in TABLES}
    monkeypatch.setattr(positions, "spans", lambda *_: {})
    monkeypatch.setattr(positions, "resume", lambda *_: starts)
    monkeypatch.setattr(positions, "fresh_at", lambda *_: None)
    monkeypatch.setattr(tails, "Consumer", reading)
    view()
    read = {each.unhurried: each.topics for each in opened}
    assert read[True] | read[False] == {table.topic for table in TABLES}
    assert {"tenants", "replays", "quarantine", "dlq", "jobs.progress"} < read[False]
    assert {"jobs", "jobs.held", "events", "deliveries", "ledger"} < read[True]
