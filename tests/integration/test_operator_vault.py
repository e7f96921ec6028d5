"""Payloads, rewrapping and erasure on a real broker, as an operator's client sees them."""

from __future__ import annotations

import os
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest
from confluent_kafka import Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
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
from support.secured import ConfiguredKafka

from streams.cli.api_client import CallFailed
from streams.serde import keys
from streams.serde.codec import TENANT
from streams.serde.records import EventInfo, Job, PayloadRef, TenantRecord
from streams.serde.sizes import CHUNK_BYTES
from streams.settings import Settings
from streams.tenants.source_keys import open_secret
from streams.vault.data_key import DataKey, new_key_record
from streams.vault.key_encryption import local_vault
from streams.vault.keyring import DataKeyring

pytestmark = pytest.mark.broker

SHOP = {"scheme": "hmac-sha256", "secret": "hunter2"}
NOTE = {"note": "asked for by its owner, case 4711"}


@pytest.fixture
def cluster(kafka: KafkaUnderTest, tmp_path: Path) -> Cluster:
    return make_cluster(kafka.bootstrap, kafka.client_settings, tmp_path)


@pytest.fixture
def operator(cluster: Cluster) -> Iterator[RunningOperator]:
    with running(cluster.settings, cluster.topology) as found:
        for tenant_id in ("acme", "bolt"):
            found.send("PUT", f"/v1/tenants/{tenant_id}", {"display_name": tenant_id.title()})
            found.send("PUT", f"/v1/tenants/{tenant_id}/sources/shop", SHOP)
        yield found


def put(cluster: Cluster, record: TenantRecord) -> None:
    key = keys.tenant_key(record.tenant_id, record.kind, record.id)
    cluster.write(("tenants", cluster.home(record.tenant_id), key, TENANT.encode(record)))


def standing(cluster: Cluster) -> dict[tuple[str, ...], TenantRecord]:
    """The last records of `tenants` by their keys' parts."""
    found: dict[tuple[str, ...], TenantRecord] = {}
    for message in cluster.read("tenants"):
        key = tuple(keys.split(message.key() or b""))
        if message.value() is None:
            found.pop(key, None)
        else:
            found[key] = TENANT.decode(message.value())
    return found


def with_body(cluster: Cluster, body: bytes, tenant_id: str = "acme") -> tuple[Job, TenantRecord]:
    """A job whose body lies on `payloads`, and the record of the key it is sealed under."""
    vault = local_vault(cluster.vault_key)
    record, event_id, home = new_key_record(vault, tenant_id), "evt_1", cluster.home(tenant_id)
    put(cluster, record)
    key = DataKey(vault, record)
    found: list[Message] = []
    producer = Producer(cluster.settings.client())
    for index in range(-(-len(body) // CHUNK_BYTES)):
        chunk = body[index * CHUNK_BYTES : (index + 1) * CHUNK_BYTES]
        producer.produce(
            cluster.settings.topic_prefix + "payloads",
            key.seal(event_id, index, chunk),
            partition=home,
            on_delivery=lambda error, message: found.append(message),
        )
    producer.flush(30)
    event = EventInfo(
        event_id, "shop", "order.paid", None, None, 1, "text/html", None, None, "k", {}
    )
    ref = PayloadRef(home, tuple(m.offset() or 0 for m in found), len(body), record.id)
    job = make_job(f"job_{tenant_id}", tenant_id, event=event, payload_ref=ref)
    cluster.write(job)
    return job, record


def payload(operator: RunningOperator, job_id: str) -> tuple[int, dict[str, str], bytes]:
    request = urllib.request.Request(
        f"{operator.url}/v1/jobs/{job_id}/payload", headers={"Authorization": f"Bearer {TOKEN}"}
    )
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
            return answer.status, dict(answer.headers), answer.read()
    except HTTPError as error:
        return error.code, dict(error.headers), error.read()


def test_a_jobs_payload_is_the_raw_body_whole_and_for_no_browser(
    cluster: Cluster, operator: RunningOperator
) -> None:
    body = b"<script>" + os.urandom(3 * CHUNK_BYTES)
    job, _ = with_body(cluster, body)
    operator.shows(f"/v1/jobs/{job.job_id}", status="pending")
    status, headers, answer = payload(operator, job.job_id)
    assert (status, answer == body) == (200, True)
    assert headers["Content-Type"] == "application/octet-stream"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Content-Disposition"].startswith("attachment")
    assert operator.plain(f"/v1/jobs/{job.job_id}/payload")[0] == 401


def test_a_payload_that_never_was_is_404_and_one_past_its_retention_410(
    cluster: Cluster, operator: RunningOperator
) -> None:
    cluster.write(make_job("job_direct"))
    operator.shows("/v1/jobs/job_direct", status="pending")
    assert payload(operator, "job_direct")[0] == 404
    assert payload(operator, "job_none")[0] == 404
    job, _ = with_body(cluster, b"old")
    operator.shows(f"/v1/jobs/{job.job_id}", status="pending")
    name = cluster.settings.topic_prefix + "payloads"
    admin = AdminClient(cluster.settings.client())
    for future in admin.delete_records([TopicPartition(name, cluster.home("acme"), 1)]).values():
        future.result(30)
    status, _, answer = payload(operator, job.job_id)
    assert (status, b"payload-gone" in answer) == (410, True)


def test_an_erased_tenants_bodies_are_410_and_nothing_that_stands_opens_them(
    cluster: Cluster, operator: RunningOperator
) -> None:
    jobs = {tenant_id: with_body(cluster, b"body", tenant_id)[0] for tenant_id in ("acme", "bolt")}
    for job in jobs.values():
        operator.shows(f"/v1/jobs/{job.job_id}", status="pending")
        assert payload(operator, job.job_id)[2] == b"body"
    done = operator.send("POST", "/v1/tenants/acme/erase", NOTE)
    assert (done["data_keys"], done["sources"], done["note"]) == (1, 1, NOTE["note"])
    status, _, answer = payload(operator, "job_acme")
    assert (status, b"payload-erased" in answer) == (410, True)
    assert payload(operator, "job_bolt")[2] == b"body"
    left = {key: record for key, record in standing(cluster).items() if key[0] == "acme"}
    assert {kind for _, kind, _ in left} == {"tenant", "erasure"}
    assert not any(record.secrets or record.keys for record in left.values())
    assert "Acme" not in str(left)
    assert operator.get("/v1/tenants/acme")["disabled"] is True


def test_what_is_set_while_a_tenant_is_erased_does_not_stand_afterwards(
    cluster: Cluster, operator: RunningOperator
) -> None:
    operator.send("PUT", "/v1/tenants/acme/sources/shop", SHOP)

    def change(path: str, body: dict[str, str]) -> None:
        with suppress(CallFailed):
            operator.send("PUT", path, body)

    with ThreadPoolExecutor(5) as pool:
        erasing = pool.submit(operator.send, "POST", "/v1/tenants/acme/erase", NOTE)
        while not erasing.done():
            changes: list[Future[Any]] = [
                pool.submit(change, "/v1/tenants/acme/sources/shop", SHOP),
                pool.submit(change, "/v1/tenants/acme", {"display_name": "Jane Doe"}),
            ]
            wait([*changes, erasing], return_when="FIRST_COMPLETED")
    left = {key: record for key, record in standing(cluster).items() if key[0] == "acme"}
    assert {kind for _, kind, _ in left} == {"tenant", "erasure"}
    assert left["acme", "tenant", ""].disabled
    assert "Jane Doe" not in str(left)


def test_a_tenant_is_erased_with_a_note_alone_and_never_comes_back(
    cluster: Cluster, operator: RunningOperator
) -> None:
    for body in ({}, {"note": " "}):
        with pytest.raises(CallFailed, match="note"):
            operator.send("POST", "/v1/tenants/acme/erase", body)
    with pytest.raises(CallFailed, match="no tenant 'none'"):
        operator.send("POST", "/v1/tenants/none/erase", NOTE)
    assert operator.get("/v1/tenants/acme")["disabled"] is False
    first = operator.send("POST", "/v1/tenants/acme/erase", NOTE)
    for path, body in (("", {}), ("/sources/shop", SHOP)):
        with pytest.raises(CallFailed, match="was erased"):
            operator.send("PUT", f"/v1/tenants/acme{path}", body)
    again = operator.send("POST", "/v1/tenants/acme/erase", {"note": "another"})
    assert again == first
    cluster.write(make_job("job_dead", status="dead"))
    operator.shows("/v1/jobs/job_dead", status="dead")
    replay = {"incident_note": "once more"}
    for path, body in (("tenants/acme/jobs", {"type": "t"}), ("dlq/job_dead/replay", replay)):
        with pytest.raises(CallFailed, match="was erased"):
            operator.send("POST", f"/v1/{path}", body)
    shown = operator.get("/v1/tenants/acme")
    assert (shown["disabled"], shown["erased_at"]) == (True, first["erased_at"])
    assert operator.get("/v1/tenants/bolt")["erased_at"] is None


@pytest.mark.parametrize("call", ["/v1/tenants/acme/erase", "/v1/vault/rewrap"])
def test_a_key_that_comes_after_the_erasure_is_dead_and_swept_away(
    cluster: Cluster, operator: RunningOperator, call: str
) -> None:
    operator.send("POST", "/v1/tenants/acme/erase", NOTE)
    late, other = (new_key_record(local_vault(cluster.vault_key), t) for t in ("acme", "bolt"))
    put(cluster, late)
    put(cluster, other)
    book = DataKeyring(local_vault(cluster.vault_key))
    for message in cluster.read("tenants"):
        book.apply(message.key(), message.value())
    assert book.current("acme") is None
    assert book.current("bolt") is not None
    eventually(lambda: payload_key_is_shown(cluster, late), what="the read model has the key")
    operator.send("POST", call, NOTE if "erase" in call else {})
    left = standing(cluster)
    assert ("acme", "data_key", late.id) not in left
    assert ("bolt", "data_key", other.id) in left


def payload_key_is_shown(cluster: Cluster, record: TenantRecord) -> bool:
    files = cluster.settings.data_dir.rglob("read_model.sqlite*")
    return any(record.id.encode() in file.read_bytes() for file in files)


def test_after_rewrapping_the_old_key_can_be_taken_away(cluster: Cluster, tmp_path: Path) -> None:
    new = tmp_path / "new.key"
    new.write_bytes(os.urandom(32))
    (old,) = cluster.settings.vault_key_file
    with running(cluster.settings, cluster.topology) as operator:
        operator.send("PUT", "/v1/tenants/acme", {})
        operator.send("PUT", "/v1/tenants/acme/sources/shop", SHOP)
        job, record = with_body(cluster, b"body")
        foreign = replace(new_key_record(local_vault(b"x" * 32), "bolt"), tenant_id="bolt")
        put(cluster, foreign)
        operator.shows(f"/v1/jobs/{job.job_id}", status="pending")
        assert operator.send("POST", "/v1/vault/rewrap")["unchanged"] == 2
        (age,) = key_ages(operator)
        assert 0 <= age < 300
    with running(_with_keys(cluster, new, old), cluster.topology) as operator:
        assert payload(operator, job.job_id)[2] == b"body"
        assert key_ages(operator) == [], "the new key has sealed no data key yet"
        done = operator.send("POST", "/v1/vault/rewrap")
        key_id = local_vault(new.read_bytes()).key_id
        assert done == {
            "key_id": key_id,
            "data_keys": 1,
            "sources": 1,
            "endpoints": 0,
            "unchanged": 0,
            "unreadable": [f"bolt/data_key/{foreign.id}"],
            "next_cursor": None,
        }
        again = operator.send("POST", "/v1/vault/rewrap")
        assert (again["data_keys"], again["sources"], again["unchanged"]) == (0, 0, 2)
    with running(_with_keys(cluster, new), cluster.topology) as operator:
        assert payload(operator, job.job_id)[2] == b"body"
    left = standing(cluster)
    only_new = local_vault(new.read_bytes())
    shop = left["acme", "source", "shop"]
    assert [open_secret(only_new, shop, k.sealed or b"") for k in shop.keys] == [b"hunter2"]
    assert left["acme", "data_key", record.id].secrets != record.secrets


def key_ages(operator: RunningOperator) -> list[float]:
    found = operator.plain("/metrics")[1].splitlines()
    name = "tidegate_vault_key_age_seconds "
    return [float(line.removeprefix(name)) for line in found if line.startswith(name)]


def _with_keys(cluster: Cluster, *files: Path) -> Settings:
    return cluster.settings.model_copy(update={"vault_key_file": files})


def test_a_destroyed_key_leaves_the_disk_of_the_broker_and_of_the_operator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the topology's own settings, but for the hour that the cleaner may take."""
    monkeypatch.setattr("streams.api.read_model.follower._HOUSEKEEPING_SECONDS", 0.5)
    with ConfiguredKafka(tmp_path / "kafka", extra={"log.cleaner.backoff.ms": "200"}) as broker:
        data_dir = tmp_path / "data"
        data_dir.mkdir()
        cluster = make_cluster(broker.bootstrap, broker.client_settings, data_dir, 0.02)
        with running(cluster.settings, cluster.topology) as operator:
            operator.send("PUT", "/v1/tenants/acme", {})
            operator.send("PUT", "/v1/tenants/acme/sources/shop", SHOP)
            _, record = with_body(cluster, b"body")
            [shop] = standing(cluster)["acme", "source", "shop"].keys
            sealed = [record.secrets[0], shop.sealed or b""]
            for folder in (tmp_path / "kafka", data_dir):
                eventually(lambda: all(_on_disk(folder, s) for s in sealed), what="on disk")  # noqa: B023
            began = time.monotonic()
            operator.send("POST", "/v1/tenants/acme/erase", NOTE)
            eventually(
                lambda: not any(_on_disk(tmp_path / "kafka", each) for each in sealed),
                what="the log cleaner has removed the key",
            )
            print(f"gone from the broker's disk after {time.monotonic() - began:.1f} s")
            eventually(
                lambda: not any(_on_disk(data_dir, each) for each in sealed),
                what="the read model's files have been cleaned",
            )


def _on_disk(folder: Path, wanted: bytes) -> bool:
    files = [file for file in folder.rglob("*") if file.is_file()]
    return any(wanted in _content(file) for file in files if not file.name.endswith(".deleted"))


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:  # renamed or deleted meanwhile
        return b""
