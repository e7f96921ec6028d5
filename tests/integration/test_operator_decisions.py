"""What a person decides of jobs, on a real broker: replay, move, settle, route; what is held."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from confluent_kafka import Message
from support.conditions import eventually
from support.kafka_under_test import KafkaUnderTest
from support.operator_cluster import (
    TOKEN,
    Cluster,
    RunningOperator,
    entry_of,
    make_cluster,
    make_entry,
    make_job,
    make_letter,
    obeying,
    refusal,
    running,
)

from streams.api import operator_state as app_state
from streams.serde import ids, keys
from streams.serde.codec import COMMAND
from streams.serde.records import DONE, Attempt, Command, Held, Move, Replay, Reroute, Settle

pytestmark = pytest.mark.broker

NOTE = {"incident_note": "the vendor is back"}
REPLAY = "/v1/dlq/job_dead/replay"
DEAD = make_job("job_dead", status="dead", attempts=5, end_reason="attempts_exhausted")


@pytest.fixture
def cluster(kafka: KafkaUnderTest, tmp_path: Path) -> Cluster:
    made = make_cluster(kafka.bootstrap, kafka.client_settings, tmp_path)
    topology = replace(made.topology, pools=("default", "gpu"))
    return Cluster(made.settings, topology, made.vault_key)


@pytest.fixture
def operator(cluster: Cluster) -> Iterator[RunningOperator]:
    with running(cluster.settings, cluster.topology) as found:
        found.send("PUT", "/v1/tenants/acme")
        yield found


def asked(
    operator: RunningOperator, path: str, body: dict[str, Any], key: str | None = None
) -> tuple[int, str, dict[str, Any]]:
    """Status, the problem's name or "", and the answer."""
    headers = {"Authorization": f"Bearer {TOKEN}"} | ({"Idempotency-Key": key} if key else {})
    status, text = operator.plain(path, "POST", headers, json.dumps(body).encode())
    answer = json.loads(text)
    name = "" if status < 400 else answer["type"].removeprefix("urn:tidegate:problem:")
    return status, name, answer


def commands(cluster: Cluster) -> list[Command]:
    return [COMMAND.decode(message.value()) for message in cluster.read("jobs.commands")]


def refusing(reason: str, detail: str) -> Callable[[Command, Message], list[Any]]:
    return lambda _, message: [refusal(message, reason, detail)]


def test_a_second_replay_names_the_first_and_has_to_be_asked_for(
    cluster: Cluster, operator: RunningOperator
) -> None:
    first = make_job("job_first", status="succeeded", replay_of="job_dead", scope=DEAD.scope)
    letter = make_letter(
        DEAD,
        replayed_at=1_700_000_000_000,
        replayed_as="job_first",
        replayed_by="operator",
        note="once",
    )
    cluster.write(replace(DEAD, replayed_as="job_first"), first, letter)
    operator.shows("/v1/dlq/job_dead", replayed_as="job_first", replayed_status="succeeded")
    shown = operator.get("/v1/dlq/job_dead")
    assert (shown["note"], shown["replayed_by"]) == ("once", "operator")
    assert [each["job_id"] for each in shown["replays"]] == ["job_first"]
    assert operator.get("/v1/dlq")["dead_letters"] == [
        {k: v for k, v in shown.items() if k != "job"}
    ]
    with obeying(cluster, refusing("already_replayed", "it was replayed as job_first")):
        status, name, answer = asked(operator, REPLAY, NOTE)
    assert (status, name) == (409, "already-replayed")
    assert answer["detail"] == "it was replayed as job_first"
    assert [each["job_id"] for each in answer["replays"]] == ["job_first"]

    def made(command: Command, _: Message) -> list[Any]:
        assert isinstance(command.body, Replay)
        if not command.body.again:
            return []  # that of before
        return [
            make_job(
                command.job_id,
                replay_of="job_dead",
                scope=DEAD.scope,
                replay_note=command.body.note,
            )
        ]

    with obeying(cluster, made):
        assert asked(operator, REPLAY, NOTE | {"again": True})[0] == 202


def test_the_replay_of_a_job_in_review_is_the_same_however_often_it_is_asked_for(
    cluster: Cluster, operator: RunningOperator
) -> None:
    """The first ends the old job: that does not stand against the same request."""
    old = make_job("job_old", status="needs_review")
    cluster.write(old)
    operator.shows("/v1/jobs/job_old", status="needs_review")

    def made(command: Command, _: Message) -> list[Any]:
        assert isinstance(command.body, Replay)
        new = make_job(
            command.job_id, replay_of="job_old", scope=old.scope, replay_note=command.body.note
        )
        return [replace(old, status="cancelled", replayed_as=command.job_id), new]

    with obeying(cluster, made):
        status, _, first = asked(operator, "/v1/dlq/job_old/replay", NOTE, "k")
        assert status == 202
        operator.shows("/v1/jobs/job_old", status="cancelled")
        again = asked(operator, "/v1/dlq/job_old/replay", NOTE, "k")
    assert (again[0], again[2]["job_id"]) == (202, first["job_id"])


def test_a_replay_that_no_dispatcher_has_decided_says_so_and_where_to_look(
    cluster: Cluster, operator: RunningOperator, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.write(DEAD, make_letter(DEAD))
    operator.shows("/v1/dlq/job_dead", kind="job")
    monkeypatch.setattr(app_state, "SHOWN_WITHIN_SECONDS", 1.0)
    status, _, pending = asked(operator, REPLAY, NOTE, "k")
    assert (status, pending["answered"], pending["replay_of"]) == (202, False, "job_dead")
    command_id = pending["command_id"]
    assert operator.get("/v1/audit", command=command_id)["audit"] == []
    monkeypatch.setattr(app_state, "SHOWN_WITHIN_SECONDS", 30.0)
    with obeying(cluster, refusing("not_replayable", "job job_dead is running")):
        status, name, answer = asked(operator, REPLAY, NOTE, "k")
    assert (status, name, answer["detail"]) == (409, "not-replayable", "job job_dead is running")
    for id_ in (command_id, answer["command_id"]):
        (entry,) = operator.get("/v1/audit", command=id_)["audit"]
        assert (entry["verb"], entry["target"]) == ("dead_letter.replay", "job_dead")
        assert (entry["principal"], entry["outcome"]) == ("operator", "refused")
        assert entry["reason"] == "not_replayable"
    assert [each["id"] for each in operator.get("/v1/dlq")["dead_letters"]] == ["job_dead"]


def test_a_fresh_scope_names_each_effect_that_is_done_or_may_be(
    cluster: Cluster, operator: RunningOperator
) -> None:
    other = make_job("job_other", "globex", status="dead", scope=DEAD.scope)
    # A replay in a fresh scope did it as well: to be begun a third time if nobody is told.
    earlier = make_job("job_fresh", status="dead", replay_of="job_dead", scope="job_fresh.1")
    cluster.write(
        DEAD,
        other,
        make_letter(DEAD),
        earlier,
        make_entry(DEAD, "email:send/x", status="done"),
        make_entry(DEAD, "lookup/y", status="failed"),
        make_entry(other, "theirs/z", status="done"),
        make_entry(earlier, "payment:refund/r1", status="review"),
    )
    operator.shows("/v1/jobs/job_fresh", status="dead")
    fresh = NOTE | {"fresh_scope": True, "again": True}
    with obeying(cluster, refusing("effects_done", "begin again")):
        status, name, answer = asked(operator, REPLAY, fresh)
        one = fresh | {"repeat_effects": ["email:send/x"]}
        _, name_of_one, answer_of_one = asked(operator, REPLAY, one)
    assert (status, name) == (409, "effects-done")
    assert {each["action"]: each["status"] for each in answer["effects"]} == {
        "email:send/x": "done",
        "payment:refund/r1": "review",
    }
    assert (name_of_one, len(answer_of_one["effects"])) == ("effects-done", 1)
    wrong = fresh | {"repeat_effects": ["email:send/x", "payment:refund/r1", "theirs/z"]}
    status, _, answer = asked(operator, REPLAY, wrong)
    assert (status, answer["errors"][0]["field"]) == (422, "repeat_effects")
    assert "theirs/z" in answer["detail"]
    sent = len(commands(cluster))
    both = ["email:send/x", "payment:refund/r1"]
    with obeying(cluster, refusing("scope_in_use", "job_x works in it")):
        assert asked(operator, REPLAY, fresh | {"repeat_effects": both})[:2] == (
            409,
            "scope-in-use",
        )
    command = commands(cluster)[-1]
    assert (len(commands(cluster)), command.call is not None) == (sent + 1, True)
    assert command.body == Replay(
        "job_dead", "the vendor is back", True, "operator", True, tuple(both), None
    )


def test_one_live_job_shares_a_scope(cluster: Cluster, operator: RunningOperator) -> None:
    sharing = make_job("job_live", status="needs_review", replay_of="job_dead", scope=DEAD.scope)
    cluster.write(DEAD, make_letter(DEAD), sharing)
    operator.shows("/v1/jobs/job_live", status="needs_review")
    with obeying(cluster, refusing("scope_in_use", "job_live works in it")):
        status, name, answer = asked(operator, REPLAY, NOTE | {"again": True})
    assert (status, name, answer["job_id"]) == (409, "scope-in-use", "job_live")


def test_a_job_does_not_pass_for_purged_while_its_letter_alone_is_shown(
    cluster: Cluster, operator: RunningOperator
) -> None:
    def made(command: Command, _: Message) -> list[Any]:
        assert isinstance(command.body, Replay)
        return [
            make_job(
                command.job_id, scope=f"{command.body.replay_of}.1", replay_note=command.body.note
            )
        ]

    with obeying(cluster, made):
        for n in range(5):
            dead = make_job(f"job_dead{n}", status="dead", end_reason="attempts_exhausted")
            cluster.write(make_letter(dead))
            operator.shows(f"/v1/dlq/{dead.job_id}", kind="job")
            cluster.write(dead)
            assert asked(operator, f"/v1/dlq/{dead.job_id}/replay", NOTE)[:2] == (202, "")
    cluster.write(make_letter(make_job("job_gone", status="dead")))
    operator.shows("/v1/dlq/job_gone", kind="job")
    assert asked(operator, "/v1/dlq/job_gone/replay", NOTE)[:2] == (409, "job-purged")


def test_a_replay_can_be_of_another_type(cluster: Cluster, operator: RunningOperator) -> None:
    cluster.write(DEAD, make_letter(DEAD))
    operator.shows("/v1/dlq/job_dead", kind="job")

    def made(command: Command, _: Message) -> list[Any]:
        assert isinstance(command.body, Replay)
        if command.body.type == "draft_v3":
            return [entry_of(command, DONE)]  # the job is there: nothing was done
        return [
            make_job(
                command.job_id,
                replay_of="job_dead",
                type=command.body.type,
                replay_note=command.body.note,
                scope=DEAD.scope,
            )
        ]

    with obeying(cluster, made):
        _, _, answer = asked(operator, REPLAY, NOTE | {"type": "draft_v2"}, "k")
        assert answer["type"] == "draft_v2"
        other = asked(operator, REPLAY, NOTE | {"type": "draft_v3"}, "k")
    assert other[:2] == (409, "key-reused")


def test_a_job_is_moved_to_a_declared_pool_alone(
    cluster: Cluster, operator: RunningOperator
) -> None:
    cluster.write(make_job("job_a"), make_job("job_ended", status="succeeded"))
    operator.shows("/v1/jobs/job_ended", status="succeeded")
    body = {"pool": "gpu", "note": "its pool is full"}

    def moved(command: Command, _: Message) -> list[Any]:
        assert command.body == Move("gpu", "its pool is full", "operator")
        return [make_job(command.job_id, pool="gpu", asked_pool="gpu")]

    with obeying(cluster, moved):
        status, _, job = asked(operator, "/v1/jobs/job_a/move", body)
    assert (status, job["pool"], job["asked_pool"]) == (202, "gpu", "gpu")
    for path, wrong, expected in (
        ("job_ended", body, (409, "job-ended")),
        ("job_none", body, (404, "job-unknown")),
        ("job_a", body | {"pool": "none"}, (422, "invalid-request")),
        ("job_a", {"pool": "gpu"}, (422, "invalid-request")),
    ):
        assert asked(operator, f"/v1/jobs/{path}/move", wrong)[:2] == expected
    cluster.write(make_job("job_b"))
    operator.shows("/v1/jobs/job_b", status="pending")
    with obeying(cluster, refusing("pool_undeclared", "'gpu' is none of: default")):
        assert asked(operator, "/v1/jobs/job_b/move", body)[:2] == (409, "pool-undeclared")


def test_the_waiting_jobs_of_a_type_are_moved_a_page_at_a_time(
    cluster: Cluster, operator: RunningOperator
) -> None:
    waiting = [make_job(f"job_{n}", created_at=n) for n in range(5)]
    cluster.write(
        *waiting,
        make_job("job_5", "globex"),
        make_job("running", status="running"),
        make_job("there", pool="gpu"),
        make_job("typed", type="other"),
    )
    operator.shows("/v1/jobs/typed", type="other")
    operator.shows("/v1/jobs/job_5", tenant_id="globex")  # of another partition
    body: dict[str, Any] = {"type": "draft_reply", "pool": "gpu", "note": "n", "limit": 4}
    _, _, dry = asked(operator, "/v1/jobs:move", body | {"dry_run": True})
    assert (dry["matched"], dry["movable"], dry["moved"]) == (6, 4, 0)
    assert commands(cluster) == []
    _, _, first = asked(operator, "/v1/jobs:move", body)
    _, _, second = asked(operator, "/v1/jobs:move", body | {"cursor": first["next_cursor"]})
    assert (first["moved"], second["moved"], second["next_cursor"]) == (4, 2, None)
    sent = commands(cluster)
    assert {each.job_id: each.tenant_id for each in sent} == {
        **{each.job_id: "acme" for each in waiting},
        "job_5": "globex",
    }
    _, _, ours = asked(operator, "/v1/jobs:move", body | {"tenant_id": "globex", "dry_run": True})
    assert ours["matched"] == 1


REVIEW = make_job("job_review", status="needs_review")


def test_an_effect_is_settled_and_says_by_whom(cluster: Cluster, operator: RunningOperator) -> None:
    refund = make_entry(REVIEW, "payment:refund/r 1", status="review", result=None)
    cluster.write(REVIEW, refund, make_entry(REVIEW, "email/x"))
    operator.shows("/v1/jobs/job_review", status="needs_review")

    def settled(command: Command, _: Message) -> list[Any]:
        assert command.body == Settle(
            "payment:refund/r 1", "done", '{"id":"re_1"}', "found it", "operator"
        )
        return [
            replace(
                refund,
                status="done",
                result=command.body.result,
                settled_by="operator",
                note="found it",
            ),
            replace(REVIEW, status="pending"),
        ]

    path = f"/v1/jobs/job_review/effects/{quote('payment:refund/r 1')}/settle"
    body = {"status": "done", "result": {"id": "re_1"}, "note": "found it"}
    with obeying(cluster, settled):
        status, _, job = asked(operator, path, body)
    effect = next(each for each in job["effects"] if each["action"] == refund.action)
    assert (status, effect["status"]) == (202, "done")
    operator.shows("/v1/jobs/job_review", status="pending")
    assert (effect["settled_by"], effect["note"]) == ("operator", "found it")
    assert effect["result"] == {"id": "re_1"}
    # A slash that is escaped is the same action, and the same word twice is one.
    escaped = f"/v1/jobs/job_review/effects/{quote('payment:refund/r 1', safe='')}/settle"
    status, _, job = asked(operator, escaped, body)
    assert (status, job["status"]) == (202, "pending")
    otherwise = {"status": "not_done", "note": "it was not"}
    assert asked(operator, escaped, otherwise)[:2] == (409, "already-settled")
    for action, wrong, expected in (
        ("email/x", body, (409, "already-settled")),
        ("none/x", body, (404, "effect-unknown")),
        ("email/x", {"status": "not_done", "note": "n", "result": 1}, (422, "invalid-request")),
        ("email/x", {"status": "done"}, (422, "invalid-request")),
        (
            "email/x",
            {"status": "done", "note": "n", "result": "x" * 262_143},
            (413, "body-too-large"),
        ),
    ):
        place = f"/v1/jobs/job_review/effects/{action}/settle"
        assert asked(operator, place, wrong)[:2] == expected


def test_an_effect_whose_call_may_be_under_way_is_not_settled_yet(
    cluster: Cluster, operator: RunningOperator
) -> None:
    living = make_job("job_living", status="running")
    cluster.write(
        REVIEW,
        living,
        make_entry(REVIEW, "a/1", status="review"),
        make_entry(living, "b/1", status="claimed"),
    )
    operator.shows("/v1/jobs/job_living", status="running")
    body = {"status": "not_done", "note": "nothing there"}
    with obeying(cluster, refusing("not_in_review", "it runs")):
        living_place = "/v1/jobs/job_living/effects/b/1/settle"
        assert asked(operator, living_place, body)[:2] == (409, "not-in-review")
    detail = "a call may still be under way: settle it after 2026-11-21T10:00:00+00:00"
    with obeying(cluster, refusing("too_early", detail)):
        status, name, answer = asked(operator, "/v1/jobs/job_review/effects/a/1/settle", body)
    assert (status, name, answer["detail"]) == (409, "too-early", detail)


ROUTE = "/v1/tenants/acme/events:route"
EVENT = {"source": "zendesk", "dedup_key": "t-1", "note": "the route was missing"}


def test_an_event_without_a_job_gets_one_once_a_route_matches(
    cluster: Cluster, operator: RunningOperator
) -> None:
    job_id = ids.event_job_id("acme", "zendesk", "t-1")

    def routed(command: Command, message: Message) -> list[Any]:
        assert command.job_id == job_id
        assert command.body == Reroute(
            ids.fingerprint("acme", "zendesk", "t-1"), EVENT["note"], "operator"
        )
        return [make_job(job_id)] if known else [refusal(message, "no_route", "none matches")]

    known: list[str] = []
    with obeying(cluster, routed):
        status, name, answer = asked(operator, ROUTE, EVENT)
        assert (status, name) == (409, "no-route")
        assert "job_id" not in answer
        known.append("route")
        assert asked(operator, ROUTE, EVENT)[2]["job_id"] == job_id
        # It has its job, and keeps it.
        assert asked(operator, ROUTE, EVENT)[2]["job_id"] == job_id
    assert asked(operator, "/v1/tenants/globex/events:route", EVENT)[:2] == (404, "tenant-unknown")
    operator.send("DELETE", "/v1/tenants/acme")
    assert asked(operator, ROUTE, EVENT)[:2] == (403, "tenant-disabled")


def test_no_answer_names_a_job_of_which_nobody_knows_yet(
    cluster: Cluster, operator: RunningOperator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app_state, "SHOWN_WITHIN_SECONDS", 1.0)
    status, name, answer = asked(operator, ROUTE, EVENT)
    assert (status, name, answer["answered"]) == (202, "", False)
    assert "job_" not in json.dumps(answer)


def test_a_pending_job_says_what_holds_it_and_its_history_is_shown(
    cluster: Cluster, operator: RunningOperator
) -> None:
    home = cluster.home("acme")
    elsewhere = (home + 1) % cluster.topology.partitions
    run = Attempt(1, 1_700_000_000_000, "w1/b", "lost", "WorkerLost: gone")
    job = make_job("job_a", lost=1, history=(run,))
    cluster.write(
        job,
        make_job("job_run", status="running"),
        Held(home, "default", "draft_reply", None, "no_worker", 1_700_000_000_000, 3, "start one"),
        Held(elsewhere, "default", "other", None, "no_worker", 1_600_000_000_000, 1, "start one"),
    )
    shown = operator.shows(
        "/v1/jobs/job_a",
        held={
            "reason": "no_worker",
            "since": "2023-11-14T22:13:20.000Z",
            "detail": "start one",
        },
    )
    assert (shown["lost"], shown["history"]) == (
        1,
        [
            {
                "attempt": 1,
                "at": "2023-11-14T22:13:20.000Z",
                "worker_id": "w1/b",
                "kind": "lost",
                "error": "WorkerLost: gone",
                "traceback": None,
                "code": None,
                "began_at": None,
            }
        ],
    )
    assert operator.shows("/v1/jobs/job_run", status="running")["held"] is None
    held = operator.get("/v1/held")["held"]
    assert [(each["partition"], each["type"]) for each in held] == [
        (home, "draft_reply"),
        (elsewhere, "other"),
    ]
    # Its tenant's own reason comes first; a reason that is over leaves.
    cluster.write(
        Held(home, "default", "draft_reply", "acme", "tenant_disabled", 1, 1, "enable it"),
    )
    eventually_held(operator, "tenant_disabled")
    tombstones = [
        ("jobs.held", home, keys.held_key(home, "default", "draft_reply", tenant), None)
        for tenant in ("acme", None)
    ]
    cluster.write(tombstones[0])
    eventually_held(operator, "no_worker")
    cluster.write(tombstones[1])
    operator.shows("/v1/jobs/job_a", held=None)


def eventually_held(operator: RunningOperator, reason: str) -> None:
    eventually(
        lambda: (operator.get("/v1/jobs/job_a")["held"] or {}).get("reason") == reason,
        what=f"job_a is held: {reason}",
    )


def test_dead_jobs_are_replayed_in_bulk_each_once_with_the_note(
    cluster: Cluster, operator: RunningOperator
) -> None:
    dead = [make_job(f"job_{n}", status="dead", type="export") for n in range(5)]
    busy = make_job("job_busy", scope=dead[4].scope)
    letters = [make_letter(job, at=1_700_000_000_000 + n) for n, job in enumerate(dead)]
    other = make_letter(make_job("job_other", status="dead", type="mail"))
    cluster.write(*dead, busy, *letters, other)
    operator.shows("/v1/dlq/job_other", kind="job")
    body = NOTE | {"kind": "job", "type": "export", "limit": 3}
    _, _, dry = asked(operator, "/v1/dlq:replay", body | {"dry_run": True})
    assert (dry["matched"], dry["replayable"], dry["jobs"], dry["replayed"]) == (5, 3, 3, 0)
    assert commands(cluster) == []

    def made(command: Command, message: Message) -> list[Any]:
        assert isinstance(command.body, Replay)
        old = next(job for job in dead if job.job_id == command.body.replay_of)
        if old is dead[4]:
            return [refusal(message, "scope_in_use", "job_busy works in it")]
        return [
            make_job(
                command.job_id,
                replay_of=old.job_id,
                scope=f"{old.scope}.replay",
                replay_note=command.body.note,
            )
        ]

    with obeying(cluster, made):
        _, _, first = asked(operator, "/v1/dlq:replay", body)
        assert (first["replayed"], first["left_out"]) == (3, [])
        _, _, second = asked(operator, "/v1/dlq:replay", body | {"cursor": first["next_cursor"]})
        assert (second["replayed"], second["next_cursor"]) == (1, None)
        assert [each["reason"] for each in second["left_out"]] == ["scope-in-use"]
        _, _, again = asked(operator, "/v1/dlq:replay", body)
        assert (again["matched"], again["replayed"]) == (1, 0)
    sent = [command.body for command in commands(cluster)]
    assert {each.replay_of for each in sent if isinstance(each, Replay)} == {
        f"job_{n}" for n in range(5)
    }
    assert {each.note for each in sent if isinstance(each, Replay)} == {NOTE["incident_note"]}


def test_a_discarded_letter_leaves_the_list_with_a_note(
    cluster: Cluster, operator: RunningOperator
) -> None:
    cluster.write(DEAD, make_letter(DEAD))
    operator.shows("/v1/dlq/job_dead", kind="job")
    discard = "/v1/dlq/job_dead/discard"
    assert asked(operator, discard, {})[:2] == (422, "invalid-request")
    assert asked(operator, "/v1/dlq/none/discard", {"note": "n"})[1] == "dead-letter-unknown"
    _, _, answer = asked(operator, discard, {"note": "the order was cancelled"})
    assert (answer["discarded_by"], answer["discard_note"]) == (
        "operator",
        "the order was cancelled",
    )
    assert operator.get("/v1/dlq")["dead_letters"] == []
    assert [e["id"] for e in operator.get("/v1/dlq", discarded="true")["dead_letters"]] == [
        "job_dead"
    ]
