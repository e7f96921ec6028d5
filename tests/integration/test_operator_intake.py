"""Quarantine, rejections and batches on a real broker, through the operator's API."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.conditions import eventually
from support.kafka_under_test import KafkaUnderTest
from support.operator_cluster import (
    TOKEN,
    Cluster,
    RunningOperator,
    make_cluster,
    make_job,
    make_quarantined,
    running,
)

from streams.cli.api_client import CallFailed, download
from streams.serde import ids
from streams.serde.codec import DUPLICATE, ENVELOPE, TENANT
from streams.serde.keys import tenant_key
from streams.serde.records import (
    Duplicate,
    Envelope,
    EventInfo,
    PayloadRef,
    Quarantined,
    Rejection,
)
from streams.serde.sizes import CHUNK_BYTES
from streams.topology.model import Route
from streams.vault.data_key import DataKey, new_key_record
from streams.vault.key_encryption import local_vault
from streams.vault.keyring import DataKeyring

pytestmark = pytest.mark.broker

SOURCE = "/v1/tenants/acme/sources/shop"
BATCH = "/v1/tenants/acme/events:batch"
NOTE = {"note": "the key is under order"}
BODY = b'{"type":"paid","order":{"id":"o-1"},"pad":"' + b"x" * CHUNK_BYTES + b'"}'
TRACE = f"00-{'a' * 32}-{'b' * 16}-01"


@pytest.fixture
def cluster(kafka: KafkaUnderTest, tmp_path: Path) -> Cluster:
    made = make_cluster(kafka.bootstrap, kafka.client_settings, tmp_path)
    return Cluster(made.settings, _routed(made.topology), made.vault_key)


def _routed(topology: Any) -> Any:
    return replace(topology, routes=(Route("shop", "*", "ship", "webhook"),))


@pytest.fixture
def operator(cluster: Cluster) -> Iterator[RunningOperator]:
    with running(cluster.settings, cluster.topology) as found:
        found.send("PUT", "/v1/tenants/acme")
        yield found


def put_source(operator: RunningOperator, dedup_key: str) -> None:
    operator.send(
        "PUT",
        SOURCE,
        {
            "scheme": "hmac-sha256",
            "secret": "s3cret",
            "mapping": {"dedup_key": dedup_key},
            "callback_url": "https://acme.example/done",
        },
    )


def quarantined(cluster: Cluster, body: bytes = BODY) -> Quarantined:
    """A body in the quarantine, as an ingress puts it there."""
    home, vault = cluster.home("acme"), local_vault(cluster.vault_key)
    wrapped = new_key_record(vault, "acme")
    data_key = DataKey(vault, wrapped)
    address = tenant_key("acme", "data_key", wrapped.id)
    cluster.write(("tenants", home, address, TENANT.encode(wrapped)))
    event_id = make_quarantined(body, PayloadRef(0, (), 0, "")).event_id
    chunks = [body[at : at + CHUNK_BYTES] for at in range(0, len(body), CHUNK_BYTES)]
    cluster.write(
        *(
            ("payloads", home, b"acme", data_key.seal(event_id, index, chunk))
            for index, chunk in enumerate(chunks)
        )
    )
    offsets = [m.offset() or 0 for m in cluster.read("payloads") if m.partition() == home]
    ref = PayloadRef(home, tuple(offsets[-len(chunks) :]), len(body), data_key.key_id)
    record = make_quarantined(body, ref)
    cluster.write(record)
    return record


def opened(cluster: Cluster, envelope: Envelope) -> bytes:
    """The raw body of an envelope, under the key that `tenants` holds."""
    book, ref = DataKeyring(local_vault(cluster.vault_key)), envelope.payload_ref
    for message in cluster.read("tenants"):
        book.apply(message.key(), message.value())
    sealed = {
        m.offset(): m.value() or b""
        for m in cluster.read("payloads")
        if m.partition() == ref.partition
    }
    data_key = book.find(envelope.tenant_id, ref.key_id).result(5)
    return data_key.open(envelope.event_id, [sealed[at] for at in ref.offsets], ref.size)


def refused(operator: RunningOperator, path: str, body: Any) -> tuple[int, dict[str, Any]]:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    status, text = operator.plain(path, "POST", headers, json.dumps(body).encode())
    return status, json.loads(text)


def test_a_quarantined_body_is_listed_with_its_reason_and_released_once_its_mapping_is_mended(
    cluster: Cluster, operator: RunningOperator
) -> None:
    put_source(operator, "id")
    record = quarantined(cluster)
    path = f"/v1/quarantine/{record.event_id}"
    shown = operator.shows(path, status="waiting", reason="dedup_key", request_id="r-1")
    assert operator.get("/v1/quarantine", tenant_id="acme")["quarantine"] == [shown]
    assert operator.get("/v1/quarantine", tenant_id="globex")["quarantine"] == []
    assert "xxxx" not in json.dumps(shown)

    status, answer = refused(operator, f"{path}/release", NOTE)
    assert (status, answer["type"]) == (409, "urn:tidegate:problem:still-misfit")
    assert (answer["reason"], "mapping.dedup_key" in answer["detail"]) == ("dedup_key", True)
    assert cluster.read("events.received") == []

    misfit = operator.send("POST", f"{path}/preview", {})
    assert (misfit["fits"], misfit["reason"], misfit["event"]) == (False, "dedup_key", None)
    tried = operator.send("POST", f"{path}/preview", {"mapping": {"dedup_key": "order.id"}})
    assert (tried["fits"], tried["event"]["dedup_key"]) == (True, "o-1")
    status, answer = refused(operator, f"{path}/preview", {"mapping": {"dedup_key": "]["}})
    assert (status, answer["errors"][0]["field"]) == (422, "mapping")
    assert cluster.read("events.received") == []
    read = {"target": record.event_id, "verb": "quarantine.preview"}
    eventually(lambda: len(operator.get("/v1/audit", **read)["audit"]) == 2, what="two entries")

    put_source(operator, "order.id")
    assert download(operator.url, TOKEN, f"{path}/payload") == BODY
    released = operator.send("POST", f"{path}/release", NOTE)
    job_id = ids.event_job_id("acme", "shop", "o-1")
    assert (released["status"], released["job_id"]) == ("released", job_id)
    assert (released["note"], released["released_by"]) == (NOTE["note"], "operator")
    [message] = cluster.read("events.received")
    envelope = ENVELOPE.decode(message.value())
    assert envelope.event_id == record.event_id
    assert envelope.fingerprint == ids.fingerprint("acme", "shop", "o-1")
    assert (message.partition(), envelope.callback_url) == (
        cluster.home("acme"),
        "https://acme.example/done",
    )
    assert opened(cluster, envelope) == BODY

    again = operator.send("POST", f"{path}/release", {"note": "again"})
    assert again == released == operator.get(path)
    assert len(cluster.read("events.received")) == 1
    assert operator.get("/v1/quarantine", status="waiting")["quarantine"] == []
    assert len(operator.get("/v1/quarantine", status="released")["quarantine"]) == 1


def test_a_release_cut_off_before_its_note_is_done_again_as_the_same_event(
    cluster: Cluster, operator: RunningOperator
) -> None:
    put_source(operator, "order.id")
    record = quarantined(cluster)
    path = f"/v1/quarantine/{record.event_id}"
    operator.shows(path, status="waiting")
    first = operator.send("POST", f"{path}/release", NOTE)
    quarantined(cluster)  # as it stands where the note was never written
    operator.shows(path, status="waiting")
    second = operator.send("POST", f"{path}/release", NOTE)
    envelopes = [ENVELOPE.decode(m.value()) for m in cluster.read("events.received")]
    assert first["job_id"] == second["job_id"]
    assert len({(e.event_id, e.fingerprint) for e in envelopes}) == 1
    assert len(operator.get("/v1/quarantine")["quarantine"]) == 1


def test_what_an_erased_tenant_left_in_quarantine_is_gone(
    cluster: Cluster, operator: RunningOperator
) -> None:
    put_source(operator, "order.id")
    path = f"/v1/quarantine/{quarantined(cluster).event_id}"
    operator.shows(path, status="waiting")
    operator.send("POST", "/v1/tenants/acme/erase", NOTE)
    status, answer = refused(operator, f"{path}/release", NOTE)
    assert (status, answer["type"]) == (410, "urn:tidegate:problem:payload-erased")
    with pytest.raises(CallFailed, match="was erased"):
        download(operator.url, TOKEN, f"{path}/payload")
    assert refused(operator, BATCH, {"events": [item(1)]})[0] == 409
    assert cluster.read("events.received") == []


@pytest.mark.parametrize("note", [{}, {"note": " \n"}])
def test_a_release_needs_a_note(
    cluster: Cluster, operator: RunningOperator, note: dict[str, str]
) -> None:
    put_source(operator, "order.id")
    record = quarantined(cluster)
    operator.shows(f"/v1/quarantine/{record.event_id}", status="waiting")
    status, answer = refused(operator, f"/v1/quarantine/{record.event_id}/release", note)
    assert (status, answer["errors"][0]["field"]) == (422, "note")
    assert cluster.read("events.received") == []


def test_what_cannot_be_released(cluster: Cluster, operator: RunningOperator) -> None:
    record = quarantined(cluster)
    path = f"/v1/quarantine/{record.event_id}"
    operator.shows(path, status="waiting")

    def told() -> tuple[int, str]:
        status, answer = refused(operator, f"{path}/release", NOTE)
        return status, answer["type"].removeprefix("urn:tidegate:problem:")

    assert told() == (409, "source-disabled")
    put_source(operator, "order.id")
    ref = replace(record.payload_ref, offsets=(10_000,), size=1)
    cluster.write(replace(record, payload_ref=ref))
    eventually(lambda: operator.get(path)["payload_ref"]["offsets"] == [10_000], what="it moved")
    assert told() == (410, "payload-gone")
    operator.send("DELETE", "/v1/tenants/acme")
    assert told() == (403, "tenant-disabled")
    with pytest.raises(CallFailed, match="no quarantined body"):
        operator.send("POST", "/v1/quarantine/evt_none/release", NOTE)
    with pytest.raises(CallFailed, match="is not one of waiting, released"):
        operator.get("/v1/quarantine", status="open")


def test_rejections_are_listed_for_their_tenant_alone(
    cluster: Cluster, operator: RunningOperator
) -> None:
    operator.send("PUT", "/v1/tenants/globex")
    now = int(time.time() * 1000)
    counted = [
        Rejection("rej_1", "acme", "shop", "unauthorized", 7, now - 2_000, now - 1_000, "stale"),
        Rejection("rej_2", "globex", None, "too-large", 1, now - 500, now - 500, cause=None),
        Rejection("rej_3", None, None, "unauthorized", 99, now - 100, now, cause=None),
    ]
    cluster.write(*counted)
    path = "/v1/tenants/acme/rejections"
    eventually(lambda: len(operator.get("/v1/rejections")["rejections"]) == 3, what="all shown")
    [mine] = operator.get(path)["rejections"]
    assert (mine["source"], mine["reason"], mine["cause"]) == ("shop", "unauthorized", "stale")
    assert mine["count"] == 7
    assert mine["first_at"] < mine["last_at"]
    assert [each["id"] for each in operator.get("/v1/rejections")["rejections"]] == [
        "rej_3",
        "rej_2",
        "rej_1",
    ]
    with pytest.raises(CallFailed, match="no tenant 'nobody'"):
        operator.get("/v1/tenants/nobody/rejections")


def test_duplicates_are_listed_and_stand_with_their_events_job(
    cluster: Cluster, operator: RunningOperator
) -> None:
    now = int(time.time() * 1000)
    event = EventInfo("evt_1", "shop", "t", None, None, now, "text/plain", None, None, "o-1", {})
    theirs = ids.fingerprint("globex", "shop", "o-1")
    ours = ids.fingerprint("acme", "shop", "o-1")
    counted = Duplicate("acme", 3, now, now + 500, "evt_4")
    others = replace(counted, tenant_id="globex", last_event_id=None)
    cluster.write(
        make_job("job_d", event=event, event_time=now),
        ("duplicates", cluster.home("acme"), ours, DUPLICATE.encode(counted)),
        ("duplicates", cluster.home("globex"), theirs, DUPLICATE.encode(others)),
    )
    eventually(lambda: len(operator.get("/v1/duplicates")["duplicates"]) == 2, what="both shown")
    [mine] = operator.get("/v1/duplicates", tenant_id="acme")["duplicates"]
    assert (mine["fingerprint"], mine["count"], mine["last_event_id"]) == (ours.hex(), 3, "evt_4")
    shown = operator.shows("/v1/jobs/job_d", status="pending")
    assert shown["duplicates"] == {"count": 3, "last_at": mine["last_at"]}
    with pytest.raises(CallFailed, match="takes cursor, limit, tenant_id"):
        operator.get("/v1/duplicates", tenant="acme")


def item(number: int, **more: Any) -> dict[str, Any]:
    return {
        "source": "shop",
        "event_type": "order.paid",
        "dedup_key": f"o-{number}",
        "subject": "s",
        "occurred_at": "2026-11-21T09:00:00Z",
        "attributes": {"k": "v"},
        "payload": {"n": number},
        **more,
    }


def test_a_batch_answers_each_of_its_events_and_the_bad_do_not_fail_the_good(
    cluster: Cluster, operator: RunningOperator
) -> None:
    put_source(operator, "id")
    events = [
        item(1),
        "no event",
        item(2, event_type=""),
        item(1),
        item(3, occurred_at="yesterday"),
        item(4, source="other", dedup_key=None),
        item(5, unknown=1),
    ]
    answer = operator.send("POST", BATCH, {"events": events})
    results = answer["results"]
    assert [each["status"] for each in results] == [
        "accepted",
        "refused",
        "refused",
        "duplicate",
        "refused",
        "accepted",
        "refused",
    ]
    assert (answer["accepted"], answer["duplicate"], answer["refused"]) == (2, 1, 4)
    assert results[0]["job_id"] == ids.event_job_id("acme", "shop", "o-1") == results[3]["job_id"]
    assert results[3]["event_id"] == results[0]["event_id"]
    assert results[5]["job_id"] is None
    problems = [each["problem"] for each in results if each["status"] == "refused"]
    assert {(p["status"], p["type"]) for p in problems} == {
        (422, "urn:tidegate:problem:invalid-request")
    }
    assert [p["errors"][0]["field"] for p in problems] == [
        "body",
        "event_type",
        "occurred_at",
        "unknown",
    ]
    envelopes = [ENVELOPE.decode(m.value()) for m in cluster.read("events.received")]
    assert {e.event_id for e in envelopes} == {results[0]["event_id"], results[5]["event_id"]}
    by_source = {e.source: e for e in envelopes}
    assert (by_source["shop"].attributes, by_source["shop"].callback_url) == (
        {"k": "v"},
        "https://acme.example/done",
    )
    assert by_source["other"].callback_url is None
    assert by_source["other"].dedup_key.startswith("sha256:")
    again = operator.send("POST", BATCH, {"events": events})
    assert [each.get("job_id") for each in again["results"]] == [
        each.get("job_id") for each in results
    ]


def test_a_batch_holds_500_events_of_up_to_8_mib(
    cluster: Cluster, operator: RunningOperator
) -> None:
    many = [item(number, payload="x" * 2_000) for number in range(500)]
    assert operator.send("POST", BATCH, {"events": many})["accepted"] == 500
    assert len(cluster.read("events.received")) == 500
    for wrong, status in (
        ({"events": [*many, item(500)]}, 422),
        ({"events": []}, 422),
        ({}, 422),
        ({"events": [item(1, payload="x" * (8 * 1024 * 1024))]}, 413),
    ):
        assert refused(operator, BATCH, wrong)[0] == status


def test_a_disabled_tenant_or_source_gets_no_events(
    cluster: Cluster, operator: RunningOperator
) -> None:
    put_source(operator, "id")
    operator.send("DELETE", SOURCE)
    [result] = operator.send("POST", BATCH, {"events": [item(1)]})["results"]
    assert result["problem"]["type"] == "urn:tidegate:problem:source-disabled"
    operator.send("DELETE", "/v1/tenants/acme")
    assert refused(operator, BATCH, {"events": [item(1)]})[0] == 403
    assert refused(operator, "/v1/tenants/nobody/events:batch", {"events": [item(1)]})[0] == 404
    assert cluster.read("events.received") == []
