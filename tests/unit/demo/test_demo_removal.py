"""What a demo leaves on somebody's cluster: nothing, or it says what and whose."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from streams.demo.run import given_cluster
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
        Answer(
            SimpleNamespace(valid=[], errors=[KafkaException(KafkaError(KafkaError._TIMED_OUT))])
        ),
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
