"""Deliveries through the operator's API, on a real broker; the tests act as the delivery stage."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from confluent_kafka import Message
from support.conditions import eventually
from support.kafka_under_test import KafkaUnderTest
from support.operator_cluster import (
    Cluster,
    RunningOperator,
    event_job,
    make_cluster,
    make_event,
    obeying,
    running,
)
from support.outgoing_rows import (
    AT,
    make_attempt,
    make_delivery,
    make_endpoint,
    make_recovery,
    make_state,
)

from streams.api import operator_state as app_state
from streams.cli.api_client import CallFailed, NoAnswer
from streams.process.wall_clock import wall_ms
from streams.serde.codec import DELIVERY_COMMAND
from streams.serde.delivery_records import DeliveryCommand

pytestmark = pytest.mark.broker

COMMANDS = (DELIVERY_COMMAND, "deliveries.commands")
ENDPOINT = "/v1/tenants/acme/endpoints/crm"
SINCE = {"since": "2023-11-14T22:13:20Z"}


@pytest.fixture
def cluster(kafka: KafkaUnderTest, tmp_path: Path) -> Cluster:
    return make_cluster(kafka.bootstrap, kafka.client_settings, tmp_path)


@pytest.fixture
def operator(cluster: Cluster) -> Iterator[RunningOperator]:
    with running(cluster.settings, cluster.topology) as found:
        found.send("PUT", "/v1/tenants/acme", {"display_name": "Acme"})
        yield found


def listed(operator: RunningOperator, path: str, **query: str) -> list[str]:
    return [each["delivery_id"] for each in operator.get(path, **query)["deliveries"]]


def refusal_of(operator: RunningOperator, **body: Any) -> str:
    """The name of the problem with which a recovery is refused, empty if it is not."""
    try:
        operator.send("POST", f"{ENDPOINT}/recover", SINCE | body)
    except CallFailed as error:
        return error.name
    return ""


def commands(cluster: Cluster) -> list[DeliveryCommand]:
    found = [DELIVERY_COMMAND.decode(each.value()) for each in cluster.read(COMMANDS[1])]
    assert {each.partition() for each in cluster.read(COMMANDS[1])} <= {cluster.home("acme")}
    return found


def test_deliveries_are_listed_with_their_attempts_where_people_look_for_them(
    cluster: Cluster, operator: RunningOperator
) -> None:
    event, now = make_event("k1"), wall_ms()
    job = event_job(event, status="succeeded")
    row = make_delivery(attempts=2, last_status=503, last_error="http_status")
    told = make_delivery(
        "dlv_told",
        endpoint_id="callbacks",
        kind="callback",
        event_id=None,
        job_id=job.job_id,
        status="delivered",
        url="https://acme.example/done",
        created_at=AT + 1,
    )
    cluster.write(
        event,
        job,
        row,
        told,
        make_attempt(row, 1, at=now),
        make_attempt(row, 2, at=now),
        make_delivery("dlv_theirs", "bolt"),
    )
    operator.shows("/v1/deliveries/dlv_theirs", tenant_id="bolt")
    eventually(
        lambda: len(operator.get("/v1/deliveries/dlv_a")["attempts"]) == 2, what="both attempts"
    )
    shown = operator.get("/v1/deliveries/dlv_a")
    assert (shown["attempt_count"], shown["attempts"][0]["address"]) == (2, "192.0.2.7")
    assert listed(operator, f"{ENDPOINT}/deliveries") == ["dlv_a"]
    assert listed(operator, f"{ENDPOINT}/deliveries", status="dead") == []
    assert listed(operator, "/v1/deliveries", tenant_id="acme") == ["dlv_told", "dlv_a"]
    job_shown = operator.shows(f"/v1/jobs/{job.job_id}", status="succeeded")
    assert [each["status"] for each in job_shown["deliveries"]] == ["delivered"]
    story = operator.shows("/v1/events/evt_k1", job_id=job.job_id)
    assert [each["delivery_id"] for each in story["deliveries"]] == ["dlv_a"]
    cluster.write(("deliveries", cluster.home("acme"), b"dlv_a", None))
    eventually(lambda: not listed(operator, f"{ENDPOINT}/deliveries"), what="dlv_a is purged")


def test_a_delivery_is_retried_twice_each_time_by_a_command_of_its_own(
    cluster: Cluster, operator: RunningOperator
) -> None:
    row = make_delivery(status="dead")
    cluster.write(row)
    operator.shows("/v1/deliveries/dlv_a", status="dead")

    def obey(command: DeliveryCommand, _: Message) -> list[Any]:
        again = replace(row, status="pending", round=0, command_id=command.command_id)
        return [replace(again, next_attempt_at=command.at)]

    with obeying(cluster, obey, *COMMANDS):
        answers = [operator.send("POST", "/v1/deliveries/dlv_a/retry") for _ in range(2)]
    sent = commands(cluster)
    assert [each["command_id"] for each in answers] == [each.command_id for each in sent]
    assert {(each["status"], each["answered"]) for each in answers} == {("pending", True)}
    assert {(each.kind, each.delivery_id) for each in sent} == {("retry", "dlv_a")}
    assert len({each.command_id for each in sent}) == 2


def test_an_endpoint_is_recovered_once_for_one_key(
    cluster: Cluster, operator: RunningOperator
) -> None:
    parked = make_delivery(status="parked", parked_because="endpoint_disabled")
    disabled = make_state(disabled_because="gone", disabled_at=AT)
    cluster.write(make_endpoint(), disabled, parked)
    operator.shows("/v1/deliveries/dlv_a", status="parked")
    counted = operator.send("POST", f"{ENDPOINT}/recover", SINCE | {"dry_run": True})
    assert (counted["matched"], counted["statuses"]) == (1, ["parked", "dead"])
    assert refusal_of(operator) == "endpoint-disabled"
    cluster.write(make_endpoint(at=AT + 1))

    def obey(command: DeliveryCommand, _: Message) -> list[Any]:
        begun = make_recovery(
            command.command_id,
            since=command.since,
            recovered=1,
            statuses=command.statuses,
            ended_at=AT,  # the command comes twice, and is obeyed once
        )
        pending = replace(parked, status="pending", parked_because=None)
        return [make_state(recovery=begun), pending]

    with obeying(cluster, obey, *COMMANDS):
        eventually(lambda: not refusal_of(operator), what="the endpoint is enabled")
        first = operator.send("POST", f"{ENDPOINT}/recover", SINCE, "k1")
        again = operator.send("POST", f"{ENDPOINT}/recover", SINCE, "k1")
    assert (first["answered"], first["recovery"]["recovered"]) == (True, 1)
    assert (again["command_id"], again["recovery"]) == (first["command_id"], first["recovery"])
    sent = [each for each in commands(cluster) if each.command_id == first["command_id"]]
    assert {(each.since, each.statuses) for each in sent} == {(AT, ("parked", "dead"))}


def test_a_test_answers_once_its_attempts_have_ended(
    cluster: Cluster, operator: RunningOperator
) -> None:
    cluster.write(make_endpoint(enabled=False))
    eventually(lambda: not refusal_of(operator, dry_run=True), what="the endpoint is there")

    def obey(command: DeliveryCommand, _: Message) -> list[Any]:
        row = make_delivery(command.delivery_id or "", kind="test")
        failed = replace(row, attempts=1)
        now = wall_ms()
        cluster.write(row)
        cluster.write(failed, make_attempt(row, 1, at=now))
        cluster.write(replace(failed, status="delivered", attempts=2, next_attempt_at=None))
        return [make_attempt(row, 2, at=now, status=204, error=None)]

    with obeying(cluster, obey, *COMMANDS), ThreadPoolExecutor() as callers:
        path = f"{ENDPOINT}/test"
        calls = [callers.submit(operator.send, "POST", path, {"sample": n}) for n in range(2)]
        answers = [each.result(60) for each in calls]
    for answer in answers:
        assert answer["delivered"] is True
        assert [each["status"] for each in answer["attempts"]] == [503, 204]
    assert {each.sample for each in commands(cluster)} == {"0", "1"}
    assert {each.delivery_id for each in commands(cluster)} == {a["delivery_id"] for a in answers}


def test_a_test_that_no_stage_takes_names_the_remedy(
    cluster: Cluster, operator: RunningOperator
) -> None:
    cluster.write(make_endpoint())
    eventually(lambda: not refusal_of(operator, dry_run=True), what="the endpoint is there")
    with (
        patch.object(app_state, "SHOWN_WITHIN_SECONDS", 0.5),
        pytest.raises(NoAnswer, match=r"is `tidegate delivery` running\?"),
    ):
        operator.send("POST", f"{ENDPOINT}/test")
