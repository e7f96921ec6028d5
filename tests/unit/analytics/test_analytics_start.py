"""What the stage says of Kafka and of its topics."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from structlog.testing import capture_logs

from streams.analytics import run
from streams.analytics.partitions import TOPICS
from streams.errors import StageFailed
from streams.settings import load_settings
from streams.topology.load import load


class Cluster:
    """Does not answer at first, then has no topics, then refuses their ids, then answers."""

    def __init__(self, *_: Any) -> None:
        self.asked, self.refused = 0, False

    def refresh(self) -> None:
        self.asked += 1
        if self.asked < 3:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    def width(self, topic: str) -> int:
        return load().topics[topic].partitions if self.asked > 4 else 0

    def ids(self, topics: tuple[str, ...]) -> dict[str, str]:
        if not self.refused:
            self.refused = True
            raise KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
        return dict.fromkeys(topics, "id")


async def test_each_reason_to_wait_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "Topics", Cluster)
    monkeypatch.setattr(run, "admin_client", lambda _: None)
    monkeypatch.setattr(run, "_BETWEEN_QUESTIONS", 0)
    with capture_logs() as lines:
        assert await run._topic_ids(load_settings({}), load()) == dict.fromkeys(TOPICS, "id")
    told = [line["event"].partition(":")[0] for line in lines]
    assert told == [
        "kafka does not answer",
        "kafka answers",
        "topics are missing",
        "kafka refuses",
    ]


async def test_a_topic_that_is_made_again_ends_the_process_and_one_that_is_gone_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ids = dict.fromkeys(TOPICS, "id")
    answers: list[dict[str, str]] = [ids, {}, {**ids, "jobs": "another"}]

    def asked(*_: Any) -> dict[str, str]:
        if not (found := answers.pop(0)):
            raise KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
        return found

    monkeypatch.setattr("streams.analytics.run.Topics.ids", asked)
    monkeypatch.setattr(run, "admin_client", lambda _: None)
    monkeypatch.setattr(run, "_BETWEEN_CHECKS", 0)
    with pytest.raises(StageFailed, match="jobs: deleted and made again"):
        await run._check_topics(load_settings({}), ids)
    assert answers == []
