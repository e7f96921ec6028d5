"""Tokens over a real broker: every operator knows them, and none takes one that another revoked."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from http.client import HTTPResponse, IncompleteRead
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import orjson
import pytest
from pydantic import SecretStr
from support.conditions import PATIENCE_SECONDS, eventually
from support.kafka_under_test import KafkaUnderTest
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
MOST_SECONDS = 3.0
"""A second, and what a busy machine adds."""


@pytest.fixture
def cluster(kafka: KafkaUnderTest, tmp_path: Path) -> Cluster:
    return make_cluster(kafka.bootstrap, kafka.client_settings, tmp_path)


def ask(
    operator: RunningOperator, token: str, method: str, path: str, body: Any = None
) -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {token}"}
    raw = None if body is None else orjson.dumps(body)
    request = Request(operator.url + path, data=raw, headers=headers, method=method)
    try:
        with urlopen(request, timeout=PATIENCE_SECONDS) as answer:
            return answer.status, orjson.loads(answer.read())
    except HTTPError as error:
        return error.code, orjson.loads(error.read())


def made(operator: RunningOperator, **body: Any) -> dict[str, Any]:
    asked = {"name": "ci", "role": "viewer", "tenants": ["*"]} | body
    status, found = ask(operator, TOKEN, "POST", "/v1/tokens", asked)
    assert status == 201, found
    return dict(found)


def read_to_its_end(stream: HTTPResponse) -> None:
    """Read a stream until it is over, in order or cut."""
    with suppress(IncompleteRead, ConnectionError):
        while stream.read1():
            pass


def opens(operator: RunningOperator, token: str) -> bool:
    return ask(operator, token, "GET", "/v1/jobs")[0] == 200


def test_a_token_that_one_operator_revokes_ends_at_the_other_with_its_open_streams(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.write(RUNNING)
    second = cluster.settings.model_copy(update={"data_dir": tmp_path / "b", "instance": "b"})
    with (
        running(cluster.settings, cluster.topology) as first,
        running(second, cluster.topology) as other,
    ):
        other.shows("/v1/jobs/job_a", status="running")
        token = made(first)
        assert opens(first, token["token"]), "the operator that made it takes it at once"
        eventually(lambda: opens(other, token["token"]), what="the other one takes it, too")
        headers = {"Authorization": f"Bearer {token['token']}"}
        request = Request(f"{other.url}/v1/jobs/job_a/events", headers=headers)
        with urlopen(request, timeout=PATIENCE_SECONDS) as stream:
            assert stream.read1()
            assert ask(first, TOKEN, "DELETE", f"/v1/tokens/{token['id']}")[0] == 200
            assert not opens(first, token["token"])
            began = time.monotonic()
            read_to_its_end(stream)
            assert time.monotonic() - began < MOST_SECONDS
        assert not opens(other, token["token"])


def test_tokens_and_their_last_use_outlive_the_operator(cluster: Cluster) -> None:
    with running(cluster.settings, cluster.topology) as operator:
        token = made(operator)
        assert opens(operator, token["token"])
    with running(cluster.settings, cluster.topology) as operator:
        (found,) = ask(operator, TOKEN, "GET", "/v1/tokens")[1]["tokens"]
        assert found["last_used_at"] is not None
        assert opens(operator, token["token"])


def test_an_operator_without_the_admin_token_takes_minted_ones(cluster: Cluster) -> None:
    with running(cluster.settings, cluster.topology) as operator:
        admin = made(operator, role="admin")["token"]
    alone = {"take_admin_token": False, "admin_token": None}
    with running(
        cluster.settings.model_copy(update=alone), cluster.topology, ready=False
    ) as operator:
        eventually(lambda: opens(operator, admin), what="the operator takes the minted token")
        assert not opens(operator, TOKEN)
        assert ask(operator, admin, "GET", "/v1/tokens")[0] == 200
    assert cluster.settings.admin_token == SecretStr(TOKEN)


def test_a_token_of_one_tenant_sees_its_jobs_alone_on_a_real_read_model(cluster: Cluster) -> None:
    own = [make_job(f"job_a{number}") for number in range(3)]
    foreign = [replace(make_job(f"job_b{number}"), tenant_id="beta") for number in range(3)]
    for each in (*own, *foreign):
        cluster.write(each)
    with running(cluster.settings, cluster.topology) as operator:
        for each in (*own, *foreign):
            operator.shows(f"/v1/jobs/{each.job_id}", status=each.status)
        operator.send("PUT", "/v1/tenants/acme", {})
        token = made(operator, role="operator", tenants=["acme"])["token"]
        _, listed = ask(operator, token, "GET", "/v1/jobs")
        assert {job["job_id"] for job in listed["jobs"]} == {job.job_id for job in own}
        assert ask(operator, token, "GET", "/v1/jobs?tenant_id=beta")[1]["jobs"] == []
        assert ask(operator, token, "GET", "/v1/jobs/job_a0")[0] == 200
        unknown = ask(operator, token, "GET", "/v1/jobs/job_none")
        for method, path in (("GET", ""), ("POST", "/cancel"), ("GET", "/events")):
            status, found = ask(operator, token, method, f"/v1/jobs/job_b0{path}", None)
            assert (status, found["type"]) == (404, unknown[1]["type"]), path
        status, found = ask(operator, token, "GET", "/v1/jobs/job_b0")
        assert str(found).replace("job_b0", "job_none") == str(unknown[1])
