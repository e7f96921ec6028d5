"""Replays of events on a real broker: what they ask the dispatcher for, and how they go on."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from support.broken_records import BROKEN_EVENT
from support.conditions import PATIENCE_SECONDS, eventually
from support.kafka_under_test import KafkaUnderTest
from support.operator_cluster import (
    Cluster,
    RunningOperator,
    make_cluster,
    make_event,
    running,
)
from support.operator_process import OperatorProcess

from streams.api import operator_state as app_state
from streams.api.read_model.fold_session import FoldSession
from streams.cli.api_client import CallFailed, NoAnswer
from streams.event_replay import preview, spans
from streams.kafka.admin import admin_client
from streams.serde import ids
from streams.serde.codec import COMMAND, ENVELOPE
from streams.serde.records import Command, Envelope, PayloadRef, ReplayEvent

pytestmark = pytest.mark.broker

WANTED = {"event_type": "order.*", "job": "draft_reply", "note": "the index was lost"}


@pytest.fixture
def cluster(kafka: KafkaUnderTest, tmp_path: Path) -> Cluster:
    return make_cluster(kafka.bootstrap, kafka.client_settings, tmp_path)


@pytest.fixture
def operator(cluster: Cluster) -> Iterator[RunningOperator]:
    with running(cluster.settings, cluster.topology) as found:
        for tenant_id in ("acme", "bolt"):
            found.send("PUT", f"/v1/tenants/{tenant_id}", {"display_name": tenant_id.title()})
        yield found


def written(cluster: Cluster, operator: RunningOperator, *events: Envelope) -> None:
    """Events, once a dry run is told of all of them: that is so a moment after the commit."""
    before = counted(operator)
    cluster.write(*events)
    eventually(
        lambda: counted(operator) == before + len(events),
        what="the events are committed for readers",
    )


def counted(operator: RunningOperator) -> int:
    return int(operator.send("POST", "/v1/replays", {"dry_run": True})["events"])


def begun(operator: RunningOperator, key: str | None = None, **wanted: Any) -> dict[str, Any]:
    return operator.send("POST", "/v1/replays", WANTED | wanted, key)


def ended(operator: RunningOperator, replay: dict[str, Any], status: str = "done") -> Any:
    return operator.shows(f"/v1/replays/{replay['replay_id']}", status=status)


def asked_for(cluster: Cluster) -> list[tuple[Command, ReplayEvent]]:
    """What the dispatcher is asked to make."""
    commands = [COMMAND.decode(each.value()) for each in cluster.read("jobs.commands")]
    return [(c, c.body) for c in commands if isinstance(c.body, ReplayEvent)]


def refused(operator: RunningOperator, **wanted: Any) -> str:
    with pytest.raises(CallFailed) as caught:
        begun(operator, **wanted)
    return str(caught.value)


def test_a_replay_asks_for_one_job_for_each_selected_event(
    cluster: Cluster, operator: RunningOperator
) -> None:
    first, second = make_event("a1"), make_event("b1", "bolt", event_type="order.refunded")
    written(cluster, operator, first, second, make_event("a2", event_type="ticket.created"))
    replay = begun(operator, "k1")
    shown = ended(operator, replay)
    assert (shown["events"], shown["jobs"], shown["jobs_by_type"]) == (2, 2, {"draft_reply": 2})
    assert (shown["note"], shown["asked_by"]) == (WANTED["note"], "operator")
    assert (shown["records_read"], shown["seconds_left"]) == (shown["records_total"], None)
    found = {body.event: (command, body) for command, body in asked_for(cluster)}
    assert found.keys() == {ENVELOPE.encode(first), ENVELOPE.encode(second)}
    for event in (first, second):
        command, body = found[ENVELOPE.encode(event)]
        assert command.tenant_id == event.tenant_id
        assert command.job_id == ids.replayed_event_job_id(
            event.tenant_id, replay["replay_id"], event.event_id
        )
        assert (body.type, body.priority, body.note) == ("draft_reply", "batch", WANTED["note"])
    again = begun(operator, "k1")
    assert (again["replay_id"], again["status"]) == (replay["replay_id"], "done")
    assert "asked for with another body" in refused(operator, key="k1", note="something else")
    assert len(asked_for(cluster)) == 2
    assert [each["replay_id"] for each in operator.get("/v1/replays")["replays"]] == [
        replay["replay_id"]
    ]


def test_one_key_begins_one_replay_in_two_processes_at_once(
    cluster: Cluster, operator: RunningOperator
) -> None:
    events = [make_event(f"a{n}") for n in range(20)]
    written(cluster, operator, *events)
    second = cluster.settings.model_copy(update={"instance": "second"})
    with running(second, cluster.topology) as other, ThreadPoolExecutor(8) as pool:
        calls = [pool.submit(begun, each, "k1") for each in (operator, other) * 4]
        (replay_id,) = {call.result()["replay_id"] for call in calls}
        shown = [
            each.shows(f"/v1/replays/{replay_id}", status="done") for each in (operator, other)
        ]
    assert [each["jobs"] for each in shown] == [20, 20]
    assert len({command.job_id for command, _ in asked_for(cluster)}) == 20


def test_a_replay_has_begun_though_the_read_model_does_not_show_it_in_time(
    cluster: Cluster, operator: RunningOperator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller who is told of no replay begins another one, and each event gets two jobs."""
    written(cluster, operator, make_event("a1"), make_event("a2"))
    moves, stands, whole = Event(), Event(), FoldSession.step

    def step(session: FoldSession) -> None:
        if not moves.is_set():
            stands.set()
            moves.wait(PATIENCE_SECONDS)
        whole(session)

    monkeypatch.setattr(FoldSession, "step", step)
    assert stands.wait(PATIENCE_SECONDS)
    monkeypatch.setattr(app_state, "SHOWN_WITHIN_SECONDS", 0.5)
    replay = begun(operator)
    assert replay["status"] == "queued"
    path = f"/v1/replays/{replay['replay_id']}"
    for method, body in (("GET", None), ("DELETE", {"note": "wrong"})):
        with pytest.raises(NoAnswer, match="the read model has not caught up"):
            operator.send(method, path, body)
    moves.set()
    ended(operator, replay)
    assert len({command.job_id for command, _ in asked_for(cluster)}) == 2
    assert len(operator.get("/v1/replays")["replays"]) == 1


def test_a_replay_that_waits_gives_no_jobs_for_events_that_came_meanwhile(
    cluster: Cluster, operator: RunningOperator
) -> None:
    written(cluster, operator, make_event("before"))
    others = [begun(operator, rate=0.1) for _ in range(4)]  # so many are carried at once
    for each in others:
        operator.shows(f"/v1/replays/{each['replay_id']}", status="running")
    replay = begun(operator)
    written(cluster, operator, make_event("meanwhile"))
    assert operator.get(f"/v1/replays/{replay['replay_id']}")["status"] == "queued"
    for each in others:
        operator.send("DELETE", f"/v1/replays/{each['replay_id']}")
    assert ended(operator, replay)["events"] == 1
    assert {ENVELOPE.decode(body.event).event_id for _, body in asked_for(cluster)} == {
        "evt_before"
    }


def test_records_that_cannot_be_read_are_counted_and_stop_nothing(
    cluster: Cluster, operator: RunningOperator
) -> None:
    poison = ("events", cluster.home("acme"), b"acme", BROKEN_EVENT)
    written(cluster, operator, make_event("a1"))
    cluster.write(poison)
    written(cluster, operator, make_event("a2"))
    shown = ended(operator, begun(operator))
    assert (shown["jobs"], shown["unreadable"]) == (2, 1)
    assert "1 records cannot be read" in shown["notes"][0]


def purge(cluster: Cluster, topic: str, partition: int, before: int) -> None:
    """Delete the records of a partition before an offset, as Kafka does when they are too old."""
    place = TopicPartition(cluster.settings.topic_prefix + topic, partition, before)
    admin = admin_client(cluster.settings)  # without a name it would end before it has an answer
    for deleted in admin.delete_records([place]).values():
        deleted.result(10)


def test_events_that_are_purged_before_a_replay_has_read_them_are_told(
    cluster: Cluster, operator: RunningOperator, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(cluster, operator, make_event("a1"))
    written(cluster, operator, make_event("a2"))
    home, purged = cluster.home("acme"), list[int]()

    def purging(asked: Any, found: Any) -> Any:
        """Once the brokers have told what the replay has to read, a part of that is purged."""
        if not purged:
            purged.append(found[home].first + 1)
            purge(cluster, "events", home, purged[0])
        return chosen(asked, found)

    chosen = spans.chosen
    monkeypatch.setattr(spans, "chosen", purging)
    shown = ended(operator, begun(operator))
    assert (shown["jobs"], shown["last_error"]) == (1, None)
    assert shown["notes"][0].startswith(f"1 offsets of partition {home} were purged")
    asked = {str(home): [0, None]}
    late = ended(operator, begun(operator, offsets=asked))
    assert late["notes"][0].startswith(f"1 offsets of partition {home} were purged")
    assert begun(operator, offsets=asked, dry_run=True)["notes"] == late["notes"]


def test_a_dry_run_tells_what_would_be_made_and_makes_nothing(
    cluster: Cluster, operator: RunningOperator, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = [make_event(f"a{n}", subject=str(n)) for n in range(7)]
    written(cluster, operator, *events, make_event("t", "bolt", event_type="ticket.created"))
    told = begun(operator, dry_run=True)
    assert (told["events"], told["by_type"], told["jobs"]) == (7, {"order.paid": 7}, 7)
    assert sum(told["by_day"].values()) == 7
    assert len(told["samples"]) == 5
    assert (told["samples"][0]["job"], told["samples"][0]["skipped"]) == ("draft_reply", None)
    by_routes = operator.send("POST", "/v1/replays", {"route": True, "dry_run": True})
    assert (by_routes["events"], by_routes["jobs"]) == (8, 0)
    assert "names a job type 'draft_reply'" in told["warning"]
    assert by_routes["warning"] is None
    assert by_routes["skipped"] == {"no_route": 8}
    misspelled = begun(operator, event_type="ordr.*", dry_run=True)
    assert "no event has a type 'ordr.*'" in misspelled["notes"][0]
    one = begun(operator, tenant_id="acme", subject="3", dry_run=True)
    assert one["events"] == 1
    monkeypatch.setattr(preview, "MOST_RECORDS", 3)
    assert "narrow it by tenant, a later `since` or offsets" in refused(operator, dry_run=True)
    assert asked_for(cluster) == []
    assert operator.get("/v1/replays")["replays"] == []


def test_a_replay_that_cannot_be_meant_is_refused_with_the_reason(
    cluster: Cluster, operator: RunningOperator
) -> None:
    away = str((cluster.home("acme") + 1) % cluster.topology.partitions)
    for wanted, why in (
        ({"note": " "}, "note: must say why"),
        ({"note": None}, "note must say why"),
        ({"job": None}, "give a job type in `job`, or `route`"),
        ({"route": True}, "exclude each other"),
        ({"since": "2999-01-01T00:00:00Z"}, "since: 2999-01-01T00:00:00Z is in the future"),
        ({"since": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z"}, "must be after since"),
        ({"priority": "urgent"}, "'urgent' is not declared"),
        ({"offsets": {"9": [0, 5]}}, "no such partition of events: give 0 to 3"),
        ({"offsets": {"00": [0, 5]}}, "offsets"),
        (
            {"offsets": {away: [0, 5]}, "tenant_id": "acme"},
            "no such partition with events of 'acme'",
        ),
        ({"offsets": {"0": [5, 5]}}, "its end must be after its first offset"),
        ({"tenant_id": "nobody"}, "no tenant 'nobody'"),
        ({"rate": 0}, "rate"),
        ({"event_type": []}, "event_type"),
        ({"offsets": {}}, "offsets"),
    ):
        assert why in refused(operator, **wanted)
    assert operator.get("/v1/replays")["replays"] == []


def test_a_replay_pauses_goes_on_and_stops_where_it_is_told_to(
    cluster: Cluster, operator: RunningOperator
) -> None:
    written(cluster, operator, *(make_event(f"a{n}") for n in range(40)))
    replay = begun(operator, rate=5.0)
    path = f"/v1/replays/{replay['replay_id']}"
    eventually(lambda: operator.get(path)["jobs"] > 0, what="the first jobs are asked for")
    operator.send("POST", f"{path}/pause")
    paused = operator.shows(path, status="paused")
    assert 0 < paused["jobs"] < 40
    assert len(asked_for(cluster)) == paused["jobs"]
    operator.send("POST", f"{path}/resume")
    eventually(lambda: operator.get(path)["jobs"] > paused["jobs"], what="it goes on")
    operator.send("DELETE", path, {"note": "enough"})
    stopped = operator.shows(path, status="stopped")
    assert stopped["stopped_because"] == "enough"
    assert len({command.job_id for command, _ in asked_for(cluster)}) == stopped["jobs"] < 40
    assert operator.send("DELETE", path)["status"] == "stopped"
    with pytest.raises(CallFailed, match="is stopped: begin another one"):
        operator.send("POST", f"{path}/resume")


def test_events_that_can_get_no_job_are_named_and_counted(
    cluster: Cluster, operator: RunningOperator
) -> None:
    purged = make_event("gone", payload_ref=PayloadRef(0, (0, 1), 12, "kek_1"))
    written(cluster, operator, purged, make_event("b1", "bolt"), make_event("x", "closed"))
    operator.send("PUT", "/v1/tenants/closed")
    operator.send("DELETE", "/v1/tenants/closed")
    operator.send("POST", "/v1/tenants/bolt/erase", {"note": "asked for"})
    producer = Producer(cluster.settings.client())
    producer.produce(cluster.settings.topic_prefix + "payloads", b"a body", partition=0)
    assert producer.flush(30) == 0
    purge(cluster, "payloads", 0, 1)
    shown = ended(operator, begun(operator))
    assert (shown["events"], shown["jobs"]) == (3, 0)
    assert shown["skipped"] == {"body_purged": 1, "tenant_erased": 1, "tenant_disabled": 1}
    assert {each["event_id"] for each in shown["skipped_samples"]} == {
        "evt_gone",
        "evt_b1",
        "evt_x",
    }


def test_a_replay_survives_kills_of_its_carrier_and_gives_each_event_one_job(
    cluster: Cluster,
) -> None:
    events = [make_event(f"k{n}", ("acme", "bolt")[n % 2]) for n in range(400)]
    cluster.write(*events)
    carrier = OperatorProcess(cluster, "one")
    try:
        carrier.api.shows("/v1/replays", replays=[])
        replay = begun(carrier.api, "k1", rate=100.0)
        path = f"/v1/replays/{replay['replay_id']}"
        for share in (60, 240):
            made = partial(carrier.api.get, path)
            eventually(lambda: made()["jobs"] >= share, what=f"{share} jobs")  # noqa: B023
            carrier.kill()
            carrier = OperatorProcess(cluster, ("one", "two")[share == 240])
            carrier.api.shows(path)
        done = carrier.api.shows(path, status="done")
    finally:
        carrier.kill()
    assert (done["events"], done["jobs"]) == (400, 400)
    assert {command.job_id for command, _ in asked_for(cluster)} == {
        ids.replayed_event_job_id(event.tenant_id, replay["replay_id"], event.event_id)
        for event in events
    }
