"""What a demo leaves on somebody's cluster: nothing, or it says what and whose."""

from __future__ import annotations

import signal
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from streams.demo.run import given_cluster
from streams.demo.run.signals import terminated_as_interrupted
from streams.errors import TidegateError

SETTINGS: Any = SimpleNamespace(topic_prefix="p.", bootstrap="b")


class Answer:
    def __init__(self, value: Any = None, error: int | None = None) -> None:
        self._value, self._error = value, error

    def result(self) -> Any:
        if self._error is not None:
            raise KafkaException(KafkaError(self._error))
        return self._value


class Admin:
    """A cluster with one topic and one group of ours; `listing` answers for its groups."""

    def __init__(self, listing: Answer) -> None:
        self.listing, self.deleted = listing, list[str]()

    def list_topics(self, timeout: float) -> Any:
        return SimpleNamespace(topics={"p.a": 1, "theirs": 1})

    def list_consumer_groups(self, request_timeout: float) -> Answer:
        return self.listing

    def delete_topics(self, names: list[str], request_timeout: float) -> dict[str, Answer]:
        self.deleted += names
        return {name: Answer() for name in names}

    def delete_consumer_groups(self, names: list[str], request_timeout: float) -> dict[str, Answer]:
        return {name: Answer(error=KafkaError.NON_EMPTY_GROUP) for name in names}


def removed(monkeypatch: pytest.MonkeyPatch, listing: Answer) -> Admin:
    admin = Admin(listing)
    monkeypatch.setattr(given_cluster, "admin_client", lambda _: admin)
    return admin


@pytest.mark.parametrize(
    "listing",
    [
        Answer(error=KafkaError.CLUSTER_AUTHORIZATION_FAILED),
        Answer(SimpleNamespace(valid=[], errors=[KafkaError(KafkaError._TIMED_OUT)])),
    ],
    ids=["refused", "no answer"],
)
def test_topics_are_removed_though_groups_cannot_be_listed_and_the_rest_is_named(
    monkeypatch: pytest.MonkeyPatch, listing: Answer
) -> None:
    admin = removed(monkeypatch, listing)
    with pytest.raises(TidegateError, match=r"everything under p\."):
        given_cluster.remove(SETTINGS)
    assert admin.deleted == ["p.a"]


def test_topics_are_gone_when_the_wait_for_groups_is_interrupted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    ours = SimpleNamespace(group_id="p.g")
    admin = removed(monkeypatch, Answer(SimpleNamespace(valid=[ours], errors=[])))
    monkeypatch.setattr("time.sleep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        given_cluster.remove(SETTINGS)
    assert admin.deleted == ["p.a"]


def stopped_while_it_removes(
    monkeypatch: pytest.MonkeyPatch, signals: int
) -> tuple[Admin, list[str]]:
    """A run whose removal gets so many SIGTERMs before it has deleted anything."""
    admin = removed(monkeypatch, Answer(SimpleNamespace(valid=[], errors=[])))
    told, listed = list[str](), admin.list_topics

    def list_topics(timeout: float) -> Any:
        for _ in range(signals):
            signal.raise_signal(signal.SIGTERM)
        return listed(timeout)

    monkeypatch.setattr(admin, "list_topics", list_topics)
    monkeypatch.setattr(given_cluster, "wait_for_broker", lambda *_: None)
    with given_cluster.removed_afterwards(SETTINGS, told.append):
        pass
    return admin, told


def test_a_sigterm_during_the_removal_does_not_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    admin, told = stopped_while_it_removes(monkeypatch, signals=1)
    assert admin.deleted == ["p.a"]
    assert told[1:] == [
        "still removing what begins with p. from b; once more leaves the rest there",
        "removed 1 topics and 0 consumer groups from b",
    ]


def test_a_second_one_ends_it_and_what_is_left_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TidegateError, match=r"what begins with p\. may be left on b"):
        stopped_while_it_removes(monkeypatch, signals=2)


def test_sigterm_ends_a_run_as_ctrl_c_does_and_is_as_before_afterwards() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), terminated_as_interrupted():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == before


def test_sigterm_ends_a_run_that_a_shell_started_in_the_background() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with pytest.raises(KeyboardInterrupt), terminated_as_interrupted():
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGINT, before)
