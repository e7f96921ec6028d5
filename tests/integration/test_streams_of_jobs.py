"""Streams over a real broker: the end comes last, and any operator goes on from an id."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from support.conditions import PATIENCE_SECONDS, eventually
from support.kafka_under_test import KafkaUnderTest
from support.live_desk import Got, parsed, texts, token
from support.operator_cluster import (
    TOKEN,
    Cluster,
    RunningOperator,
    make_cluster,
    make_job,
    running,
)

pytestmark = pytest.mark.broker

RUNNING = make_job(status="running", attempts=1, epoch=1, run_id="run_1")
DONE = replace(RUNNING, status="succeeded", result="1")


@pytest.fixture
def cluster(kafka: KafkaUnderTest, tmp_path: Path) -> Cluster:
    return make_cluster(kafka.bootstrap, kafka.client_settings, tmp_path)


class Stream:
    """An open stream that a thread reads to its end."""

    def __init__(self, operator: RunningOperator, last: str | None) -> None:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        if last is not None:
            headers["Last-Event-ID"] = last
        self._answer = urlopen(
            Request(f"{operator.url}/v1/jobs/job_a/events", headers=headers),
            timeout=PATIENCE_SECONDS,
        )
        self.status = self._answer.status
        self._raw = b""
        self.thread = threading.Thread(target=self._read)
        self.thread.start()

    @property
    def got(self) -> list[Got]:
        return parsed(self._raw)

    def has(self, event: str, times: int = 1) -> bool:
        return sum(each.event == event for each in self.got) >= times

    def _read(self) -> None:
        while piece := self._answer.read1():
            self._raw += piece


@contextmanager
def streaming(operator: RunningOperator, last: str | None = None) -> Iterator[Stream]:
    stream = Stream(operator, last)
    yield stream
    stream.thread.join(PATIENCE_SECONDS)
    assert not stream.thread.is_alive(), "the stream does not end"


def test_a_job_is_streamed_to_its_end_and_another_operator_goes_on_from_any_id(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.write(RUNNING)
    words = [token("job_a", n, f"{n} ", step="draft") for n in range(50)]
    with running(cluster.settings, cluster.topology) as operator:
        operator.shows("/v1/jobs/job_a", status="running")
        with streaming(operator) as stream:
            for word in words[:-1]:
                cluster.write(word)
            eventually(lambda: stream.has("token", 49), what="49 tokens are read")
            # The last words and the end are written together, as where a worker flushes.
            cluster.write(words[-1], DONE)
        got = stream.got
        assert [each.event for each in got[-2:]] == ["status", "end"]
        assert texts(got) == {"draft": "".join(f"{n} " for n in range(50))}
        with streaming(operator, got[-1].id) as nothing:
            assert nothing.status == 204
    other = cluster.settings.model_copy(update={"data_dir": tmp_path / "other"})
    with running(other, cluster.topology) as operator:
        operator.shows("/v1/jobs/job_a", status="succeeded")
        for number in (0, 7, len(got) - 3, len(got) - 2):
            with streaming(operator, got[number].id) as rest:
                pass
            assert _told(rest.got) == _told(got[number + 1 :])


def _told(got: list[Got]) -> list[tuple[str, Any]]:
    """What is the same wherever it is read; ids name the hour in which they were given."""
    return [(each.event, each.data) for each in got]
