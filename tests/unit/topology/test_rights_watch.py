"""What the user of a process lacks is told by name, once for each change."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AclOperation
from structlog.testing import capture_logs

from streams.errors import KafkaUnavailable
from streams.kafka.failures import Outage, needing, not_sent
from streams.topology.rights import Right
from streams.topology.rights_watch import Group, RightsWatch, missing

READ = Right("topic", "events", "Read")
WRITE = Right("topic", "dlq", "Write")
SETTINGS = Right("topic", "dlq", "DescribeConfigs")
JOIN = Right("group", "dedup", "Read")
ID = Right("transactional_id", "dedup-", "Write", prefixed=True)


@dataclass
class Described:
    authorized_operations: list[AclOperation] | None


@dataclass
class Broker:
    """An admin client whose broker tells what `may` says: operations, or an error's code."""

    may: dict[str, list[AclOperation] | int | None] = field(default_factory=dict)

    def describe_topics(self, topics: Any, **_: Any) -> dict[str, Future[Described]]:
        return self._described(topics)

    def _described(self, names: Iterable[str]) -> dict[str, Future[Described]]:
        answers = {}
        for name in names:
            answers[name] = Future[Described]()
            told = self.may.get(name, KafkaError.UNKNOWN_TOPIC_OR_PART)
            if isinstance(told, int):
                answers[name].set_exception(KafkaException(KafkaError(told)))
            else:
                answers[name].set_result(Described(told))
        return answers


@dataclass
class Client:
    """A client of a group; a question for positions ends with an error's code, or with none.

    `told` are errors that it has as messages.
    """

    refusal: int | None = None
    told: list[int] = field(default_factory=list)

    def committed(self, places: Any, _: float) -> list[Any]:
        assert places
        if self.refusal is not None:
            raise KafkaException(KafkaError(self.refusal))
        return []

    def poll(self, _: float) -> Any:
        code = self.told.pop(0) if self.told else None
        return None if code is None else SimpleNamespace(error=lambda: KafkaError(code))


@pytest.fixture(autouse=True)
def collection(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client's own collection of names does not give them back."""
    monkeypatch.setattr("streams.topology.rights_watch.TopicCollection", list)


def lacking(*rights: Right, group: int | None = None, **may: Any) -> list[Right]:
    client: Any = Client(group)
    groups = {JOIN.name: Group(client, "events")} if JOIN in rights else {}
    return missing(Broker(may), rights, groups)  # type: ignore[arg-type]


def test_a_right_is_missing_if_its_operation_is_not_among_those_that_the_user_may_do() -> None:
    may = [AclOperation.WRITE, AclOperation.DESCRIBE]
    assert lacking(READ, WRITE, SETTINGS, events=may, dlq=may) == [READ, SETTINGS]
    assert lacking(SETTINGS, dlq=[*may, AclOperation.DESCRIBE_CONFIGS]) == []


def test_all_rights_on_what_may_not_be_seen_are_missing() -> None:
    hidden = KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert lacking(READ, WRITE, SETTINGS, dlq=hidden) == [WRITE, SETTINGS]
    group = KafkaError.GROUP_AUTHORIZATION_FAILED
    assert lacking(READ, JOIN, events=[AclOperation.READ], group=group) == [JOIN]


@pytest.mark.parametrize("told", [KafkaError.UNKNOWN_TOPIC_OR_PART, None, []])
def test_what_the_broker_does_not_tell_is_not_missing(told: Any) -> None:
    assert lacking(READ, JOIN, ID, events=told) == []


def test_a_coordinator_that_is_away_is_not_a_missing_right() -> None:
    with pytest.raises(KafkaException):
        lacking(READ, JOIN, events=[AclOperation.READ], group=KafkaError._TIMED_OUT)


def test_a_group_whose_coordinator_is_denied_is_hidden_until_it_answers() -> None:
    away, refused = KafkaError._TIMED_OUT, KafkaError.GROUP_AUTHORIZATION_FAILED
    client: Any = Client(away, [KafkaError._TRANSPORT, refused])
    group = Group(client, "events")
    assert group.hidden(), "librdkafka tells it once"
    assert group.hidden()
    client.refusal = None
    assert not group.hidden()


def test_a_broker_that_is_away_tells_nothing() -> None:
    broker = Broker({"events": KafkaError.REQUEST_TIMED_OUT})
    with capture_logs() as logged:
        RightsWatch(broker, [READ], {}, "u").look()  # type: ignore[arg-type]
    assert logged == []


def test_what_is_missing_is_logged_once_and_so_is_its_end() -> None:
    broker = Broker({"events": KafkaError.TOPIC_AUTHORIZATION_FAILED})
    watch = RightsWatch(broker, [READ, WRITE], {}, "tidegate-dedup")  # type: ignore[arg-type]
    with capture_logs() as logged:
        watch.look()
        watch.look()
        broker.may["events"] = [AclOperation.READ]
        watch.look()
        watch.look()
    assert [(line["log_level"], line["user"]) for line in logged] == [
        ("error", "tidegate-dedup"),
        ("info", "tidegate-dedup"),
    ]
    assert logged[0]["missing"] == ["Read on topic events"]
    assert "tidegate topology describe --acls" in logged[0]["event"]


def test_an_error_names_the_right_and_the_next_step() -> None:
    with (
        pytest.raises(KafkaException, match=r"Read on group dedup is missing.*--acls") as raised,
        needing("Read on group dedup"),
    ):
        raise KafkaException(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED, "no"))
    assert raised.value.args[0].code() == KafkaError.GROUP_AUTHORIZATION_FAILED
    told = not_sent("dlq", KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    assert isinstance(told, KafkaUnavailable)
    assert "may not write it" in str(told)


def test_another_error_is_left_as_it_is() -> None:
    away = KafkaException(KafkaError(KafkaError._TIMED_OUT))
    with pytest.raises(KafkaException) as raised, needing("Read on group dedup"):
        raise away
    assert raised.value is away


def test_a_refusal_is_not_logged_as_silence() -> None:
    with capture_logs() as logged:
        Outage().failed(KafkaException(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED)))
        Outage().failed(KafkaException(KafkaError(KafkaError._TIMED_OUT)))
    assert [line["event"].partition(":")[0] for line in logged] == [
        "kafka refuses",
        "kafka does not answer",
    ]
