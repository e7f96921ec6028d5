"""What the operator itself changes, and its entry of the audit, in one transaction on a broker."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import orjson
import pytest
from support.conditions import eventually
from support.kafka_under_test import KafkaUnderTest
from support.operator_cluster import Cluster, RunningOperator, make_cluster, running
from support.operator_process import OperatorProcess

from streams.audit_topic import checked
from streams.kafka.fenced_write import FencedWrites
from streams.serde import keys
from streams.serde.codec import TENANT
from streams.serde.records import TenantRecord

pytestmark = pytest.mark.broker

CANARY = "canary-secret-of-thirty-two-bytes!!"
SOURCE = {"scheme": "github", "secret": CANARY}


@pytest.fixture
def cluster(kafka: KafkaUnderTest, tmp_path: Path) -> Cluster:
    return make_cluster(kafka.bootstrap, kafka.client_settings, tmp_path)


def whole_chains(cluster: Cluster) -> dict[str, int]:
    """How many entries each chain has; none may be broken."""
    found = checked(cluster.settings, cluster.topology.partitions).json()
    assert found["broken"] == []
    return {each["chain"]: each["seq"] for each in found["chains"]}


def entries(operator: RunningOperator, **query: str) -> list[dict[str, Any]]:
    return list(operator.get("/v1/audit", **query)["audit"])


def test_a_change_has_an_entry_with_the_states_around_it_and_no_secret(cluster: Cluster) -> None:
    with running(cluster.settings, cluster.topology) as operator:
        operator.send("PUT", "/v1/tenants/acme")
        operator.send("PUT", "/v1/tenants/acme/sources/shop", SOURCE)
        operator.send("DELETE", "/v1/tenants/acme/sources/shop")
        made = operator.send("POST", "/v1/tokens", {"name": "ci", "role": "viewer"})
        operator.send("DELETE", f"/v1/tokens/{made['id']}")
        pause = {"scope": "pool", "value": "default", "reason": "the vendor is down"}
        operator.send("POST", "/v1/limits/pause", pause)
        eventually(lambda: len(entries(operator)) == 6, what="six entries are shown")
        found = entries(operator)
    assert [each["verb"] for each in reversed(found)] == [
        "tenant.set",
        "source.set",
        "source.disable",
        "token.make",
        "token.revoke",
        "limit.pause",
    ]
    disabled = found[3]
    assert (disabled["before"]["disabled"], disabled["after"]["disabled"]) == (False, True)
    assert {each["principal"] for each in found} == {"operator"}
    text = orjson.dumps(found).decode()
    assert CANARY not in text
    assert made["token"] not in text
    assert found[0]["note"] == "the vendor is down"
    assert sum(whole_chains(cluster).values()) == 6


def test_refused_attempts_and_reads_have_entries(cluster: Cluster) -> None:
    body = b'{"canary":"in-a-body"}'
    with running(cluster.settings, cluster.topology) as operator:
        operator.send("PUT", "/v1/tenants/acme")
        made = operator.send("POST", "/v1/tokens", {"name": "ci", "role": "viewer"})
        seen = {"Authorization": f"Bearer {made['token']}"}
        asked = [
            operator.plain("/v1/dlq/job_dead/replay", "POST", seen, body)[0],
            operator.plain("/v1/jobs/job_a/payload", "GET", seen, None)[0],
        ]
        operator.send("DELETE", f"/v1/tokens/{made['id']}")
        asked.append(operator.plain("/v1/jobs", "GET", seen, None)[0])
        asked.append(operator.plain("/v1/jobs", "GET", {"Authorization": "Bearer x"}, None)[0])
        assert asked == [403, 403, 401, 401]
        eventually(lambda: len(entries(operator, outcome="refused")) == 3, what="the refusals")
        found = entries(operator, outcome="refused")
        for _ in range(30):
            operator.plain("/v1/jobs", "GET", seen, None)
    assert [(each["verb"], each["reason"]) for each in reversed(found)] == [
        ("dead_letter.replay", "permission_missing"),
        ("job.read_payload", "permission_missing"),
        ("api.read", "token_revoked"),
    ]
    assert {each["principal"] for each in found} == {f"token:{made['id']}"}
    assert sum(whole_chains(cluster).values()) < 30


def test_chains_go_on_after_a_kill_and_beside_another_operator(cluster: Cluster) -> None:
    first = OperatorProcess(cluster, "one")
    try:
        eventually(lambda: _puts(first.api, 0), what="the first change is taken")
    finally:
        first.kill()
    own = replace_instance(cluster, "one"), replace_instance(cluster, "two")
    with running(*own[0]) as one, running(*own[1]) as two, ThreadPoolExecutor(20) as pool:
        sent = [pool.submit(_puts, (one, two)[n % 2], n) for n in range(1, 41)]
        assert all(each.result() for each in sent)
    chains = whole_chains(cluster)
    assert {chain.partition(":")[0] for chain in chains} == {"operator/one", "operator/two"}
    assert sum(chains.values()) == 41


def replace_instance(cluster: Cluster, name: str) -> Any:
    return cluster.settings.model_copy(update={"instance": name}), cluster.topology


def _puts(operator: RunningOperator, number: int) -> bool:
    try:
        operator.send("PUT", f"/v1/tenants/t{number}")
    except Exception:
        return False
    return True


def test_what_was_left_open_is_neither_a_change_nor_an_entry(cluster: Cluster) -> None:
    """Another process of the instance opens a transaction and dies: the operator goes on."""
    record = TENANT.encode(TenantRecord("ghost", "tenant", "", False, "{}", updated_at=1))
    key = keys.tenant_key("ghost", "tenant", "")

    async def leave_open() -> None:
        own = FencedWrites(cluster.settings, f"operator-{cluster.settings.instance}")
        left = await own.open()
        left._producer.begin_transaction()
        left._producer.produce(cluster.settings.topic_prefix + "tenants", record, key, 0)
        left._producer.flush(10)

    with running(cluster.settings, cluster.topology) as operator:
        operator.send("PUT", "/v1/tenants/acme")
        asyncio.run(leave_open())  # it fences the operator's producer, too
        operator.send("PUT", "/v1/tenants/acme", {"limits": []})
        assert [each["tenant_id"] for each in operator.get("/v1/tenants")["tenants"]] == ["acme"]
    assert sum(whole_chains(cluster).values()) == 2
