"""Readers for people ask the broker a few times a second, not once for each record."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from streams.dev.console.topic_follower import TopicFollower
from streams.event_reader import follow as following
from streams.event_reader.selection import Selection
from streams.kafka import tail as tails
from streams.kafka.failures import Outage
from streams.operator.read_model import positions
from streams.operator.read_model.fold_session import FoldSession
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
