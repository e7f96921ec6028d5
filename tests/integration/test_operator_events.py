"""Events on a real broker: what became of each, their bodies, their ageing, a restart."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message, Producer
from support.conditions import eventually
from support.kafka_under_test import KafkaUnderTest
from support.operator_cluster import (
    TOKEN,
    Cluster,
    RunningOperator,
    event_job,
    make_cluster,
    make_entry,
    make_event,
    make_job,
    make_letter,
    running,
)

from streams.api.read_model import follower
from streams.serde import keys
from streams.serde.codec import DUPLICATE, ENVELOPE, TENANT
from streams.serde.records import Duplicate, Envelope, PayloadRef
from streams.vault.data_key import DataKey, new_key_record
from streams.vault.key_encryption import local_vault

pytestmark = pytest.mark.broker

HOUR_MS = 3_600_000


@pytest.fixture
def cluster(kafka: KafkaUnderTest, tmp_path: Path) -> Cluster:
    return make_cluster(kafka.bootstrap, kafka.client_settings, tmp_path)


@pytest.fixture
def operator(cluster: Cluster) -> Iterator[RunningOperator]:
    with running(cluster.settings, cluster.topology) as found:
        for tenant_id in ("acme", "bolt"):
            found.send("PUT", f"/v1/tenants/{tenant_id}", {"display_name": tenant_id.title()})
        yield found


def produced(cluster: Cluster, topic: str, value: bytes, partition: int, **more: Any) -> int:
    """Write one record outside the cluster's transactions; return its offset."""
    found: list[Message] = []
    producer = Producer(cluster.settings.client())
    producer.produce(
        cluster.settings.topic_prefix + topic,
        value,
        partition=partition,
        on_delivery=lambda _, message: found.append(message),
        **more,
    )
    assert producer.flush(30) == 0
    return found[0].offset() or 0


def with_body(cluster: Cluster, body: bytes, tenant_id: str) -> Envelope:
    """An event whose body lies sealed on `payloads`, written to `events`."""
    vault, home = local_vault(cluster.vault_key), cluster.home(tenant_id)
    record = new_key_record(vault, tenant_id)
    key = keys.tenant_key(tenant_id, record.kind, record.id)
    cluster.write(("tenants", home, key, TENANT.encode(record)))
    event_id = f"evt_of_{tenant_id}"
    sealed = DataKey(vault, record).seal(event_id, 0, body)
    ref = PayloadRef(home, (produced(cluster, "payloads", sealed, home),), len(body), record.id)
    event = make_event("body", tenant_id, event_id=event_id, payload_ref=ref)
    cluster.write(event)
    return event


def listed(operator: RunningOperator, **query: str) -> list[str]:
    return [each["event_id"] for each in operator.get("/v1/events", **query)["events"]]


def payload(operator: RunningOperator, event_id: str) -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    return operator.plain(f"/v1/events/{event_id}/payload", headers=headers, body=None)


def test_events_show_what_became_of_them(cluster: Cluster, operator: RunningOperator) -> None:
    worked, unrouted = make_event("worked"), make_event("unrouted", routed=False)
    job = event_job(worked, status="dead")
    again = make_job(
        "job_again",
        replay_of=job.job_id,
        status="succeeded",
        replay_note="mended",
        submitted_by="operator",
    )
    now = int(time.time() * 1000)
    counted = Duplicate("acme", 2, now, now + 60_000, "evt_dup")
    cluster.write(
        worked,
        unrouted,
        job,
        make_entry(job, "email:send/reply"),
        make_letter(job),
        again,
        ("duplicates", cluster.home("acme"), worked.fingerprint, DUPLICATE.encode(counted)),
        make_event("theirs", "bolt", source="desk"),
    )
    operator.shows("/v1/events/evt_worked", job_id=job.job_id)
    operator.shows("/v1/dlq/" + job.job_id, kind="job")
    story = eventually(
        lambda: (s := operator.get("/v1/events/evt_worked"))["duplicates"] and s["replays"] and s,
        what="the whole story",
    )
    assert (story["duplicates"]["count"], story["duplicates"]["last_event_id"]) == (2, "evt_dup")
    assert story["job"]["status"] == "dead"
    assert [each["action"] for each in story["job"]["effects"]] == ["email:send/reply"]
    (letter,) = story["dead_letters"]
    (replay,) = story["replays"]
    assert letter["replays"] == [replay]
    assert (replay["job_id"], replay["status"]) == ("job_again", "succeeded")
    assert (replay["note"], replay["submitted_by"]) == ("mended", "operator")
    assert operator.get("/v1/events/evt_unrouted")["job"] is None
    assert set(listed(operator)) == {"evt_worked", "evt_unrouted", "evt_theirs"}
    assert listed(operator, tenant_id="acme", unrouted="true") == ["evt_unrouted"]
    assert listed(operator, source="desk", event_type="order.*") == ["evt_theirs"]
    tenants_own = operator.get("/v1/tenants/bolt/events")["events"]
    assert [each["event_id"] for each in tenants_own] == ["evt_theirs"]


def test_a_body_is_opened_until_its_tenant_is_erased(
    cluster: Cluster, operator: RunningOperator
) -> None:
    for tenant_id in ("acme", "bolt"):
        event = with_body(cluster, b'{"id": 7}', tenant_id)
        operator.shows(f"/v1/events/{event.event_id}", size=9)
        assert payload(operator, event.event_id) == (200, '{"id": 7}')
    operator.send("POST", "/v1/tenants/acme/erase", {"note": "asked for by its owner"})
    status, text = payload(operator, "evt_of_acme")
    assert (status, "payload-erased" in text) == (410, True)
    assert payload(operator, "evt_of_bolt")[0] == 200
    eventually(
        lambda: len(operator.get("/v1/audit", verb="event.read_payload")["audit"]) == 3,
        what="each opened body has an entry",
    )
    reads = operator.get("/v1/audit", verb="event.read_payload")["audit"]
    assert {each["target"] for each in reads} == {"evt_of_acme", "evt_of_bolt"}
    assert operator.plain("/v1/events/evt_of_bolt/payload", body=None)[0] == 401
    status, text = payload(operator, "evt_none")
    assert (status, "event-unknown" in text) == (404, True)


def test_old_events_leave_the_list_and_are_not_read_again(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, home = int(time.time() * 1000), cluster.home("acme")

    def arrived(name: str, age_ms: int) -> None:
        value = ENVELOPE.encode(make_event(name))
        produced(cluster, "events", value, home, key=b"acme", timestamp=now - age_ms)

    arrived("old", 25 * HOUR_MS)
    arrived("young", 23 * HOUR_MS)
    with running(cluster.settings, cluster.topology) as operator:
        # What is older than the list when the operator starts is not even read.
        assert listed(operator) == ["evt_young"]
    # A restart goes on from the stored offsets.
    arrived("newest", 0)
    with running(cluster.settings, cluster.topology) as operator:
        operator.shows("/v1/events/evt_newest", partition=home)
        assert listed(operator) == ["evt_newest", "evt_young"]
    monkeypatch.setattr(follower, "_HOUSEKEEPING_SECONDS", 0.1)
    shorter = cluster.settings.model_copy(update={"events_listed_hours": 1})
    with running(shorter, cluster.topology) as operator:
        eventually(lambda: listed(operator) == ["evt_newest"], what="the young one is too old now")
    # The topic still has all three: a longer list, folded anew, shows them.
    (cluster.settings.data_dir / "operator/0/read_model.sqlite").unlink()
    longer = cluster.settings.model_copy(update={"events_listed_hours": 48})
    with running(longer, cluster.topology) as operator:
        assert listed(operator) == ["evt_newest", "evt_young", "evt_old"]


def test_what_is_no_event_is_left_to_the_dispatcher(
    cluster: Cluster, operator: RunningOperator
) -> None:
    produced(cluster, "events", b"garbage", cluster.home("acme"))
    cluster.write(make_event("after"))
    operator.shows("/v1/events/evt_after", job_id=None)
    assert operator.get("/v1/dlq")["dead_letters"] == []
    assert cluster.read("dlq") == []
