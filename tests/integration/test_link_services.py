"""An owner's services on a real broker: bodies, what runs say, and tokens as they change."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Message, Producer
from msgspec.structs import replace as changed
from support.conditions import PATIENCE_SECONDS
from support.kafka_under_test import KafkaUnderTest
from support.link_desk import EPOCH, RUN, WORKER, Wire, an_event, some_bytes
from support.operator_cluster import Cluster, make_cluster, make_job

from streams.access.token_records import USE, TokenGrant, use_in
from streams.access.tokens import Token, mint
from streams.link.committed_jobs import Stores
from streams.link.grant import Grant
from streams.link.services import Services
from streams.process.wall_clock import wall_ms
from streams.serde.codec import JOB, LIVE, TENANT
from streams.serde.keys import tenant_key
from streams.serde.link.messages import Body, Done, Live
from streams.serde.records import Job, PayloadRef, TenantRecord
from streams.serde.sizes import CHUNK_BYTES
from streams.vault.data_key import DataKey, new_key_record
from streams.vault.key_encryption import local_vault

pytestmark = pytest.mark.broker


@pytest.fixture
def cluster(kafka: KafkaUnderTest, tmp_path: Path) -> Cluster:
    return make_cluster(kafka.bootstrap, kafka.client_settings, tmp_path)


@pytest.fixture
async def services(cluster: Cluster) -> AsyncIterator[Services]:
    errors = list[Exception]()
    found = Services(cluster.settings, cluster.topology, "dispatcher", errors.append)
    found.start()
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not found.ready:
            await asyncio.sleep(0.01)
    yield found
    await found.close()
    await asyncio.to_thread(found.stop)
    assert errors == []


def put(cluster: Cluster, record: TenantRecord, home: int) -> None:
    key = tenant_key(record.tenant_id, record.kind, record.id)
    cluster.write(("tenants", home, key, TENANT.encode(record)))


def own(services: Services, cluster: Cluster, **fields: object) -> tuple[Job, int]:
    """A job of tenant acme with a living lease, in the partition that the process owns."""
    lease = {"status": "running", "worker_id": WORKER, "epoch": EPOCH, "run_id": RUN}
    job, home = make_job(**(lease | fields)), cluster.home("acme")  # type: ignore[arg-type]
    rows = {job.job_id.encode(): JOB.encode(job)}
    services.jobs.opened(home, Stores(rows.get, lambda _: None))
    return job, home


def stored(cluster: Cluster, body: bytes, home: int) -> PayloadRef:
    """Store a body of the event `evt_1` of tenant acme under a new key."""
    vault = local_vault(cluster.vault_key)
    record = new_key_record(vault, "acme")
    put(cluster, record, home)
    key, found = DataKey(vault, record), list[Message]()
    producer = Producer(cluster.settings.client())
    for index, at in enumerate(range(0, len(body), CHUNK_BYTES)):
        producer.produce(
            cluster.settings.topic_prefix + "payloads",
            key.seal("evt_1", index, body[at : at + CHUNK_BYTES]),
            partition=home,
            on_delivery=lambda _, message: found.append(message),
        )
    producer.flush(30)
    return PayloadRef(home, tuple(m.offset() or 0 for m in found), len(body), record.id)


async def test_a_worker_gets_the_body_of_its_lease(cluster: Cluster, services: Services) -> None:
    body, home = some_bytes(3 * CHUNK_BYTES + 7), cluster.home("acme")
    ref = await asyncio.to_thread(stored, cluster, body, home)
    job, _ = own(services, cluster, event=an_event("evt_1"), payload_ref=ref)
    asked, wire = Body(1, home, job.job_id, EPOCH), Wire()
    services.answering.ask(wire, asked)
    services.answering.ask(wire, changed(asked, request=2, epoch=EPOCH - 1))
    assert await wire.got(1) == body
    assert (await wire.failure()).request == 2


async def test_what_runs_say_is_on_its_topic_in_order(cluster: Cluster, services: Services) -> None:
    job, home = own(services, cluster)
    said = Live(0, home, job.job_id, EPOCH, RUN, wall_ms(), "token", "draft", 0, "Dear ")
    wire = Wire()
    for number in range(50):
        services.answering.ask(wire, changed(said, request=number, n=number))
        assert (await wire.answers(number + 1))[-1] == Done(number)
    for number in range(50, 550):
        services.answering.ask(wire, changed(said, request=number, n=number))
    await wire.answers(550)
    messages = await asyncio.to_thread(cluster.read, "jobs.live")
    found = [LIVE.decode(message.value() or b"") for message in messages]
    assert [each.n for each in found] == list(range(550))
    assert {(each.job_id, each.tenant_id, each.epoch) for each in found} == {
        (job.job_id, "acme", EPOCH)
    }
    assert {message.partition() for message in messages} == {home}


def token() -> tuple[Token, TokenGrant]:
    made = mint()
    grant = TokenGrant(
        id=made.id,
        name="agents",
        role="worker",
        permissions=frozenset(),
        tenants=frozenset({"acme"}),
        digest=made.digest,
        made_at=wall_ms(),
        made_by="operator",
        expires_at=wall_ms() + 3_600_000,
    )
    return made, grant


async def test_tokens_are_known_once_made_and_once_revoked(
    cluster: Cluster, services: Services
) -> None:
    made, grant = token()
    header = f"Bearer {made.text}"
    assert not isinstance(services.access.authenticate(header, "192.0.2.1"), Grant)
    await asyncio.to_thread(put, cluster, grant.record(wall_ms()), 0)
    found: object = None
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not isinstance(found, Grant):
            found = services.access.authenticate(header, "192.0.2.1")
            await asyncio.sleep(0.01)
    assert found.tenants == frozenset({"acme"})
    ended = replace(grant, revoked_at=wall_ms() + 1, revoked_by="operator")
    await asyncio.to_thread(put, cluster, ended.record(wall_ms() + 1), 0)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while services.access.is_valid(found):
            await asyncio.sleep(0.01)


async def test_an_owner_notes_the_use_of_a_token_when_it_ends(
    cluster: Cluster, services: Services
) -> None:
    made, grant = token()
    await asyncio.to_thread(put, cluster, grant.record(wall_ms()), 0)
    header, since = f"Bearer {made.text}", wall_ms()
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not isinstance(services.access.authenticate(header, "192.0.2.1"), Grant):
            await asyncio.sleep(0.01)
    await services.close()
    messages = await asyncio.to_thread(cluster.read, "tenants")
    key = tenant_key("", USE, made.id)
    (use,) = (message.value() for message in messages if message.key() == key)
    assert use_in(TENANT.decode(use or b"")) >= since
