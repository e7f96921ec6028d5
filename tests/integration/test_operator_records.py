"""Dead records go in again on a real broker: to their own place, with their mark."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from unittest.mock import patch

import pytest
from confluent_kafka import Message
from confluent_kafka.cimpl import NewTopic
from support.conditions import PATIENCE_SECONDS
from support.former_commands import former
from support.kafka_under_test import KafkaUnderTest
from support.operator_cluster import (
    TOKEN,
    Cluster,
    RunningOperator,
    make_cluster,
    make_event,
    running,
)
from support.topics import create_topics

from streams import dispatcher
from streams.api import operator_state
from streams.errors import RecordTooLarge
from streams.kafka.admin import admin_client
from streams.kafka.fenced_write import FencedWrite, OutgoingRecord
from streams.runtime.loop import StageLoop
from streams.serde.codec import COMMAND, DEAD_LETTER
from streams.serde.ids import event_job_id
from streams.serde.records import Command, DeadLetter, Heartbeat, Replay, Submit
from streams.topology.cluster import topic_config
from streams.topology.model import Route

pytestmark = pytest.mark.broker

NOTE = {"incident_note": "the topic is back"}
NOW = int(time.time() * 1000)
SUBMIT = Command(
    "cmd_1",
    "acme",
    "job_a",
    0,
    NOW,
    Submit(
        "t",
        "{}",
        None,
        None,
        None,
        None,
        None,
        None,
        b"\1" * 32,
        None,
    ),
)


def letter(offset: int = 7, **fields: Any) -> DeadLetter:
    """A record that dedup could not process."""
    given: dict[str, Any] = {
        "kind": "record",
        "tenant_id": "",
        "reason": "output_refused",
        "detail": "too large",
        "stage": "dispatcher",
        "at": NOW,
        "topic": "events",
        "partition": 1,
        "offset": offset,
        "key": b"acme",
        "value": b"envelope",
        "timestamp": NOW - 90_000,
        "headers": {"traceparent": b"00-a-b-01", "ce_id": b"evt_1"},
    }
    given |= fields
    place = f"{given['topic']}:{given['partition']}:{given['offset']}"
    return DeadLetter(**({"id": f"{given['stage']}:{place}"} | given))


@pytest.fixture
def cluster(kafka: KafkaUnderTest, tmp_path: Path) -> Cluster:
    return make_cluster(kafka.bootstrap, kafka.client_settings, tmp_path)


@pytest.fixture
def operator(cluster: Cluster) -> Iterator[RunningOperator]:
    with running(cluster.settings, cluster.topology) as found, short_waits():
        yield found


def short_waits() -> AbstractContextManager[Any]:
    """Mostly no stage runs that would answer."""
    return patch.object(operator_state, "SHOWN_WITHIN_SECONDS", 2.0)


def asked(
    operator: RunningOperator, path: str, body: dict[str, Any]
) -> tuple[int, str, dict[str, Any]]:
    """Status, the problem's name or "", and the answer."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    status, text = operator.plain(path, "POST", headers, json.dumps(body).encode())
    answer = json.loads(text)
    name = "" if status < 400 else answer["type"].removeprefix("urn:tidegate:problem:")
    return status, name, answer


def replay(operator: RunningOperator, id_: str, **body: Any) -> tuple[int, str, dict[str, Any]]:
    return asked(operator, f"/v1/dlq/{id_}/replay", NOTE | body)


def headers(message: Message) -> dict[str, bytes]:
    found: Any = message.headers()
    return dict(found or [])


def returned(cluster: Cluster, topic: str = "jobs.commands") -> list[DeadLetter]:
    """The letters that were sent to a stage's own input."""
    found = cluster.read(topic)
    assert all((m.key() or b"") == headers(m)["tidegate-letter"] for m in found)
    return [DEAD_LETTER.decode(m.value()) for m in found]


def test_a_letter_goes_to_its_own_stage_and_partition_and_says_so(
    cluster: Cluster, operator: RunningOperator
) -> None:
    dead = letter()
    cluster.write(dead)
    operator.shows(f"/v1/dlq/{dead.id}", kind="record")
    status, _, answer = replay(operator, dead.id)
    assert status == 202
    assert answer["sent"] == {
        "topic": "jobs.commands",
        "partition": 1,
        "timestamp": operator.get(f"/v1/dlq/{dead.id}")["timestamp"],
    }
    (sent,) = cluster.read("jobs.commands")
    assert (sent.partition(), sent.key()) == (1, dead.id.encode())
    assert (answer["replayed_by"], answer["note"]) == ("operator", NOTE["incident_note"])
    assert (answer["replay_outcome"], answer["answered"]) == (None, False)
    (carried,) = returned(cluster)
    unmarked = {name: v for name, v in carried.headers.items() if name != "tidegate-replay"}
    assert dead == replace(carried, replayed_at=None, replayed_by=None, note=None, headers=unmarked)
    assert len(cluster.read("dlq")) == 1, "its stage writes the letter again, with its answer"
    assert cluster.read("events") == [], "which analytics, exports and consumers read"


def test_the_dispatcher_takes_an_event_from_its_letter_and_events_has_it_once(
    cluster: Cluster, operator: RunningOperator
) -> None:
    event = make_event("k1")
    make_others(cluster)
    cluster.write(event)
    (written,) = cluster.read("events")
    place = ("events", written.partition() or 0, written.offset() or 0)
    id_ = f"dispatcher:events:{place[1]}:{place[2]}"
    with dispatching(cluster, place):
        operator.shows(f"/v1/dlq/{id_}", reason="set_aside")
    with dispatching(cluster):
        assert replay(operator, id_)[0] == 202
        shown = operator.shows(f"/v1/dlq/{id_}", replay_outcome="taken")
        assert (shown["replayed_by"], shown["note"]) == ("operator", NOTE["incident_note"])
        job_id = event_job_id(event.tenant_id, event.source, event.dedup_key)
        operator.shows(f"/v1/jobs/{job_id}", status="pending")
    assert [m.value() for m in cluster.read("events")] == [written.value()]
    assert replay(operator, id_, again=True)[:2] == (409, "already-replayed")


def make_others(cluster: Cluster) -> None:
    """Create the topics that a dispatcher needs beside those of an operator."""
    admin, prefix = admin_client(cluster.settings), cluster.settings.topic_prefix
    known = admin.list_topics(timeout=PATIENCE_SECONDS).topics
    wanted = [t for t in cluster.topology.topics.values() if prefix + t.name not in known]
    create_topics(
        cluster.settings.bootstrap,
        admin,
        [
            NewTopic(prefix + t.name, t.partitions, 1, config=topic_config(t, replicated=False))
            for t in wanted
        ],
    )


@contextmanager
def dispatching(cluster: Cluster, *aside: tuple[str, int, int]) -> Iterator[None]:
    """A dispatcher on a new disk, which sets these records aside."""
    settings = cluster.settings.model_copy(
        update={
            "set_aside": frozenset(aside),
            "data_dir": Path(mkdtemp(dir=cluster.settings.data_dir)),
        }
    )
    topology = replace(cluster.topology, routes=(Route("*", "*", "draft_reply", "webhook"),))
    stop = threading.Event()
    loop = StageLoop(dispatcher.stage(topology), topology, settings, stop)
    with ThreadPoolExecutor(1) as pool:
        ran = pool.submit(loop.run)
        try:
            yield
        finally:
            stop.set()
            ran.result(60)


COMMAND_LETTER: dict[str, Any] = {"topic": "jobs.commands", "value": COMMAND.encode(SUBMIT)}
BEAT = replace(SUBMIT, body=Heartbeat(()))
ASKED = replace(SUBMIT, body=Replay("job_a", "n", False, None))
UNFIT: dict[str, tuple[dict[str, Any], str]] = {
    "cut": ({"cut": True}, "does not hold the whole record"),
    "a worker's": ({"stage": "worker", "topic": "jobs.work.default"}, "worker has no input of its"),
    "not read": ({"topic": "deliveries"}, "dispatcher does not read deliveries now"),
    "no partition": ({"partition": 4}, "events has no partition 4: it has 4"),
    "of a moment": (COMMAND_LETTER | {"value": former(BEAT)}, "a worker's Heartbeat"),
    "refused": (COMMAND_LETTER | {"value": COMMAND.encode(ASKED)}, "ask for it again"),
}


def test_what_cannot_go_in_again_is_told_with_the_reason(
    cluster: Cluster, operator: RunningOperator
) -> None:
    letters = {case: letter(n, **fields) for n, (case, (fields, _)) in enumerate(UNFIT.items())}
    fit = letter(99, **COMMAND_LETTER)
    places = {case: (each.partition or 0) % 4 for case, each in letters.items()}
    cluster.write(
        fit,
        *(
            ("dlq", places[case], each.id.encode(), DEAD_LETTER.encode(each))
            for case, each in letters.items()
        ),
    )
    for each in letters.values():
        operator.shows(f"/v1/dlq/{each.id}", kind="record")
    for case, (_, reason) in UNFIT.items():
        status, name, answer = replay(operator, letters[case].id)
        assert (status, name) == (409, "not-replayable"), case
        assert reason in answer["detail"], case
    assert replay(operator, fit.id, fresh_scope=True)[:2] == (422, "invalid-request")
    _, _, bulk = asked(operator, "/v1/dlq:replay", NOTE)
    assert (bulk["matched"], bulk["replayed"]) == (len(UNFIT) + 1, 1)
    assert {each["id"] for each in bulk["left_out"]} == {each.id for each in letters.values()}
    (sent,) = returned(cluster)
    assert COMMAND.decode(sent.value) == SUBMIT


def test_many_go_in_page_by_page_in_the_order_of_their_offsets(
    cluster: Cluster, operator: RunningOperator
) -> None:
    offsets = [2, 9, 10, 100, 11]
    wanted = [letter(n, value=str(n).encode(), at=NOW - n) for n in offsets]
    others = [
        letter(1, reason="undecodable"),
        letter(3, stage="dedup", topic="events.received"),
        letter(4, at=NOW - 500_000),
        letter(5, replayed_at=1, note="before"),
    ]
    cluster.write(*wanted, *others)
    operator.shows(f"/v1/dlq/{others[-1].id}", note="before")
    filters = NOTE | {
        "stage": "dispatcher",
        "reason": "output_refused",
        "topic": "events",
        "limit": 3,
        "since": "2020-01-01T00:00:00Z",
        "until": "2999-01-01T00:00:00Z",
    }
    _, _, dry = asked(operator, "/v1/dlq:replay", filters | {"dry_run": True})
    assert (dry["matched"], dry["replayed"], dry["replayable"]) == (6, 0, 3)
    assert cluster.read("jobs.commands") == []
    body, pages = filters | {"since": _rfc3339(NOW - 400_000)}, list[dict[str, Any]]()
    while not pages or pages[-1]["next_cursor"]:
        cursor = {"cursor": pages[-1]["next_cursor"]} if pages else {}
        pages.append(asked(operator, "/v1/dlq:replay", body | cursor)[2])
    assert [page["replayed"] for page in pages] == [3, 2]
    assert [each.value for each in returned(cluster)] == [b"2", b"9", b"10", b"11", b"100"]
    for wrong in ({"since": "yesterday"}, {"limit": 0}, {"cursor": "x"}, {"stag": "x"}):
        assert asked(operator, "/v1/dlq:replay", NOTE | wrong)[:2] == (422, "invalid-request")


def _rfc3339(milliseconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(milliseconds / 1000))


def test_two_operators_that_are_asked_at_once_harm_nothing(
    cluster: Cluster, operator: RunningOperator, tmp_path: Path
) -> None:
    event = make_event("k1")
    make_others(cluster)
    cluster.write(event)
    (written,) = cluster.read("events")
    place = ("events", written.partition() or 0, written.offset() or 0)
    id_ = f"dispatcher:events:{place[1]}:{place[2]}"
    with dispatching(cluster, place):
        operator.shows(f"/v1/dlq/{id_}", reason="set_aside")
    other = cluster.settings.model_copy(update={"instance": "b", "data_dir": tmp_path / "b"})
    with running(other, cluster.topology) as second, ThreadPoolExecutor(2) as pool:
        second.shows(f"/v1/dlq/{id_}", reason="set_aside")
        asked_both = pool.map(lambda each: replay(each, id_)[0], (operator, second))
        assert list(asked_both) == [202, 202]
    with dispatching(cluster):
        operator.shows(f"/v1/dlq/{id_}", replay_outcome="taken")
        job_id = event_job_id(event.tenant_id, event.source, event.dedup_key)
        operator.shows(f"/v1/jobs/{job_id}", status="pending", incarnation=1)


def test_one_that_the_broker_will_not_take_leaves_the_others_their_way(
    cluster: Cluster, operator: RunningOperator, monkeypatch: pytest.MonkeyPatch
) -> None:
    letters = [letter(n, value=b"huge" if n == 2 else b"x") for n in range(5)]
    cluster.write(*letters)
    operator.shows(f"/v1/dlq/{letters[-1].id}", kind="record")
    commit = FencedWrite.commit

    async def refusing(self: FencedWrite, *records: OutgoingRecord) -> list[int]:
        if any(each.topic != "audit" and b"huge" in (each.value or b"") for each in records):
            raise RecordTooLarge("MSG_SIZE_TOO_LARGE")
        return await commit(self, *records)

    monkeypatch.setattr(FencedWrite, "commit", refusing)
    _, _, bulk = asked(operator, "/v1/dlq:replay", NOTE)
    assert bulk["replayed"] == 4
    assert [(each["id"], each["reason"]) for each in bulk["left_out"]] == [
        (letters[2].id, "not-taken")
    ]
    assert replay(operator, letters[2].id)[:2] == (409, "not-taken")
    assert len(returned(cluster)) == 4
