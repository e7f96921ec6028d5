"""Bulk acts on a real broker: what is planned, what is sent for each item, and who goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message
from support.conditions import eventually
from support.kafka_under_test import KafkaUnderTest
from support.operator_cluster import (
    Cluster,
    RunningOperator,
    make_cluster,
    make_job,
    make_letter,
    obeying,
    refusal,
    running,
)
from support.operator_process import OperatorProcess

from streams.cli.api_client import CallFailed
from streams.serde import ids
from streams.serde.bulk_records import BulkProgress
from streams.serde.codec import BULK, COMMAND
from streams.serde.records import Cancel, Command, Job, Replay

pytestmark = pytest.mark.broker

REPLAY = {"action": "dead_letters.replay", "note": "the disk is back"}
DISCARD = {"action": "dead_letters.discard", "note": "test data"}


@pytest.fixture
def cluster(kafka: KafkaUnderTest, tmp_path: Path) -> Cluster:
    return make_cluster(kafka.bootstrap, kafka.client_settings, tmp_path)


@pytest.fixture
def operator(cluster: Cluster) -> Iterator[RunningOperator]:
    with running(cluster.settings, cluster.topology) as found:
        for tenant_id in ("acme", "bolt"):
            found.send("PUT", f"/v1/tenants/{tenant_id}", {"display_name": tenant_id.title()})
        yield found


def dead(count: int, tenant_id: str = "acme") -> list[Job]:
    return [
        make_job(
            f"job_{tenant_id}_{n}",
            tenant_id,
            status="dead",
            end_reason="attempts_exhausted",
            attempts=5,
        )
        for n in range(count)
    ]


def written(cluster: Cluster, jobs: list[Job]) -> None:
    for start in range(0, len(jobs), 100):
        part = jobs[start : start + 100]
        cluster.write(*part, *(make_letter(job) for job in part))


def replayed(command: Command, _: Message) -> list[Any]:
    """What a dispatcher makes of a replay: one job, however often it is asked for."""
    if not isinstance(command.body, Replay):
        return []
    body = command.body
    return [
        make_job(
            command.job_id,
            command.tenant_id,
            replay_of=body.replay_of,
            scope=f"{body.replay_of}.1",
            replay_note=body.note,
        )
    ]


def begun(operator: RunningOperator, key: str | None = None, **wanted: Any) -> dict[str, Any]:
    return operator.send("POST", "/v1/bulk", REPLAY | wanted, key)


def refused(operator: RunningOperator, **wanted: Any) -> str:
    with pytest.raises(CallFailed) as caught:
        begun(operator, **wanted)
    return str(caught.value)


def items(operator: RunningOperator, bulk_id: str, **query: str) -> list[dict[str, Any]]:
    """All items of an act, page by page."""
    found, cursor = list[dict[str, Any]](), ""
    while True:
        more = {"cursor": cursor} if cursor else {}
        page = operator.get(f"/v1/bulk/{bulk_id}/items", limit="7", **query, **more)
        found += page["items"]
        if page["next_cursor"] is None:
            return found
        cursor = page["next_cursor"]


def test_a_bulk_replays_each_letter_that_its_filter_selects_once(
    cluster: Cluster, operator: RunningOperator
) -> None:
    written(cluster, dead(15) + dead(3, "bolt"))
    eventually(
        lambda: len(operator.get("/v1/dlq", limit="50")["dead_letters"]) == 18,
        what="the letters are shown",
    )
    wanted: dict[str, Any] = {"filter": {"tenant_id": "acme"}}
    plan = begun(operator, **wanted, dry_run=True)
    assert (plan["count"], len(plan["samples"]), plan["excluded"]) == (15, 10, [])
    assert operator.get("/v1/bulk")["bulk"] == []
    with obeying(cluster, replayed):
        act = begun(operator, "k1", **wanted)
        assert (act["count"], act["samples"]) == (15, plan["samples"])
        path = f"/v1/bulk/{act['bulk_id']}"
        shown = operator.shows(path, status="done")
    assert (shown["done"], shown["failed"], shown["waiting"]) == (15, 0, 0)
    assert [(each["by"], each["did"]) for each in shown["joined"]] == [("operator", "ask")]
    found = items(operator, act["bulk_id"])
    assert [each["number"] for each in found] == list(range(15))
    assert {each["outcome"] for each in found} == {"done"}
    for each in found:
        assert operator.get(f"/v1/jobs/{each['made']}")["replay_of"] == each["id"]
    assert begun(operator, "k1", **wanted) == act
    assert "asked for with another body" in refused(
        operator, key="k1", **wanted | {"note": "something else"}
    )
    again = begun(operator, **wanted, dry_run=True)
    assert (again["count"], again["excluded"][0]["reason"]) == (0, "already_replayed")
    assert again["excluded"][0]["count"] == 15
    assert len(list(commands(cluster))) == 15


def commands(cluster: Cluster) -> Iterator[Command]:
    return (COMMAND.decode(each.value()) for each in cluster.read("jobs.commands"))


def test_a_letter_whose_job_is_shown_later_than_itself_is_selected(
    cluster: Cluster, operator: RunningOperator
) -> None:
    jobs = dead(300)
    cluster.write(*(make_letter(job) for job in jobs))
    operator.shows("/v1/dlq/job_acme_299")
    cluster.write(*jobs)
    for action in (REPLAY, REPLAY | {"action": "dead_letters.edit", "params": {"patch": {}}}):
        plan = operator.send("POST", "/v1/bulk", action | {"dry_run": True})
        assert "job_purged" not in [each["reason"] for each in plan["excluded"]]


def test_what_arrives_after_the_request_is_not_taken(
    cluster: Cluster, operator: RunningOperator
) -> None:
    written(cluster, dead(3))
    operator.shows("/v1/dlq/job_acme_2")
    act = begun(operator, action="dead_letters.discard", ramp=[])
    written(cluster, dead(3, "bolt"))
    operator.shows("/v1/dlq/job_bolt_2")
    shown = operator.shows(f"/v1/bulk/{act['bulk_id']}", status="done")
    assert (shown["count"], shown["done"]) == (3, 3)
    left = operator.get("/v1/dlq")["dead_letters"]
    assert {each["id"] for each in left} == {f"job_bolt_{n}" for n in range(3)}


def test_an_act_stops_at_its_failures_and_goes_on_once_a_person_says_so(
    cluster: Cluster, operator: RunningOperator
) -> None:
    written(cluster, dead(20))
    operator.shows("/v1/dlq/job_acme_19")

    def some(command: Command, message: Message) -> list[Any]:
        assert isinstance(command.body, Replay)
        if command.body.replay_of == "job_acme_0":
            return [refusal(message, "scope_in_use", "job x shares the effects")]
        return replayed(command, message)

    with obeying(cluster, some):
        act = begun(operator, stop_at_failures=1)
        path = f"/v1/bulk/{act['bulk_id']}"
        stopped = operator.shows(path, status="stopped")
        assert (stopped["done"], stopped["failed"], stopped["waiting"]) == (0, 1, 19)
        assert stopped["stopped_because"] == "1 items failed, and 1 stop it"
        operator.send("POST", f"{path}/resume")
        shown = operator.shows(path, status="done")
    assert (shown["done"], shown["failed"]) == (19, 1)
    (failed,) = items(operator, act["bulk_id"], outcome="failed")
    assert (failed["id"], failed["reason"]) == ("job_acme_0", "scope_in_use")
    assert failed["detail"] == "job x shares the effects"


def test_an_act_is_paused_and_cancelled_and_names_who_took_part(
    cluster: Cluster, operator: RunningOperator
) -> None:
    written(cluster, dead(3))
    operator.shows("/v1/dlq/job_acme_2")
    act = begun(operator)  # no dispatcher answers
    path = f"/v1/bulk/{act['bulk_id']}"
    assert operator.send("POST", f"{path}/pause")["status"] in ("pausing", "paused")
    cancelled = operator.send("POST", f"{path}/cancel", {"note": "wrong filter"})
    assert cancelled["status"] in ("cancelling", "cancelled")
    with obeying(cluster, replayed):
        shown = operator.shows(path, status="cancelled", stopped_because="wrong filter")
    assert operator.send("POST", f"{path}/cancel")["status"] == "cancelled"
    with pytest.raises(CallFailed, match="is cancelled: begin another one"):
        operator.send("POST", f"{path}/resume")
    assert [(each["by"], each["did"]) for each in shown["joined"]] == [("operator", "cancel")]
    assert [each["outcome"] for each in items(operator, act["bulk_id"])][1:] == ["waiting"] * 2


def test_jobs_are_cancelled_and_moved_by_one_command_each(
    cluster: Cluster, operator: RunningOperator
) -> None:
    waiting = [make_job(f"job_{n}") for n in range(5)]
    cluster.write(*waiting, make_job("job_over", status="succeeded"))
    operator.shows("/v1/jobs/job_over", status="succeeded")

    def cancelled(command: Command, _: Message) -> list[Any]:
        assert isinstance(command.body, Cancel)
        return [make_job(command.job_id, status="cancelled", cancel_requested=True)]

    wanted: dict[str, Any] = {"action": "jobs.cancel", "filter": {"type": "draft_reply"}}
    with obeying(cluster, cancelled):
        act = begun(operator, **wanted)
        assert (act["count"], act["excluded"][0]["reason"]) == (5, "ended")
        shown = operator.shows(f"/v1/bulk/{act['bulk_id']}", status="done")
    assert (shown["done"], shown["failed"]) == (5, 0)
    sent = list(commands(cluster))
    assert {each.job_id for each in sent} == {job.job_id for job in waiting}
    for each in sent:
        assert each.command_id == ids.bulk_command_id(act["bulk_id"], each.job_id)
        assert each.call is not None
        assert (each.call.principal, each.call.request_id) == ("operator", act["bulk_id"])
    plan = begun(operator, action="jobs.move", params={"pool": "default"}, dry_run=True)
    assert {each["reason"] for each in plan["excluded"]} == {"ended"}
    assert "params.pool" in refused(operator, action="jobs.move")
    assert "'gpu' is not declared" in refused(operator, action="jobs.move", params={"pool": "gpu"})


def test_what_cannot_be_meant_is_refused_with_the_reason(
    cluster: Cluster, operator: RunningOperator
) -> None:
    for wanted, why in (
        ({"action": "jobs.explode"}, "action: 'jobs.explode' is none of dead_letters.replay"),
        ({"filter": {"colour": "red"}}, "filter.colour"),
        ({"filter": {"kind": "fish"}}, "filter.kind"),
        ({"filter": {"since": "yesterday"}}, "filter.since"),
        ({"params": {"pool": "x"}}, "params.pool"),
        ({"note": " "}, "note: must say why"),
        ({"note": None}, "note must say why"),
        ({"ramp": [0]}, "ramp"),
        ({"stop_at_failures": 0}, "stop_at_failures"),
        ({"stop_at_failures": 1.5}, "stop_at_failures"),
    ):
        assert why in refused(operator, **wanted)
    with pytest.raises(CallFailed, match="no bulk act 'blk_x'"):
        operator.get("/v1/bulk/blk_x/items")
    assert operator.get("/v1/bulk")["bulk"] == []


def test_a_bulk_survives_the_kill_of_its_operator_and_replays_each_letter_once(
    cluster: Cluster,
) -> None:
    jobs = dead(100) + dead(100, "bolt")
    written(cluster, jobs)
    first, second = OperatorProcess(cluster, "one"), OperatorProcess(cluster, "two")
    try:
        for each in (first, second):
            each.api.shows("/v1/bulk", bulk=[])
            each.api.shows("/v1/dlq/job_bolt_99")
        with obeying(cluster, replayed):
            act = begun(first.api, "k1")
            assert act["count"] == 200
            path = f"/v1/bulk/{act['bulk_id']}"
            carrier, other = carried_by(cluster, path, first, second)
            carrier.kill()
            shown = other.api.shows(path, status="done")
    finally:
        for each in (first, second):
            each.kill()
    assert (shown["done"], shown["failed"], shown["waiting"]) == (200, 0, 0)
    of_letter = dict[str, set[str]]()
    for command in commands(cluster):
        assert isinstance(command.body, Replay)
        of_letter.setdefault(command.body.replay_of, set()).add(command.job_id)
    assert of_letter.keys() == {job.job_id for job in jobs}
    assert {len(each) for each in of_letter.values()} == {1}


def carried_by(
    cluster: Cluster, path: str, first: OperatorProcess, second: OperatorProcess
) -> tuple[OperatorProcess, OperatorProcess]:
    """The process that is in the middle of the act, and the other one."""

    def author() -> str | None:
        for message in cluster.read("bulk"):
            record = BULK.decode(message.value())
            if isinstance(record.body, BulkProgress) and 20 <= record.body.done < 200:
                return record.by
        return None

    by = eventually(author, what="the act is in its middle")
    return (first, second) if by.startswith("one") else (second, first)
