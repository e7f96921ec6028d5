"""What is written of an event, under which key, and how much of it is held at once."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from support.webhooks import VAULT, MemoryLog, SilentLog, tenant_on, topology

from ingress.receive.event import Event, Facts, routed
from ingress.receive.event_writer import EventWriter
from ingress.receive.key_maker import KeyMaker
from ingress.schemes.normalize import Normalized
from streams.errors import Erased, KafkaUnavailable
from streams.serde.codec import ENVELOPE, TENANT
from streams.serde.ids import partition_for
from streams.serde.keys import tenant_key
from streams.serde.records import TenantRecord
from streams.serde.sizes import CHUNK_BYTES
from streams.vault.key_encryption import Vault
from streams.vault.keyring import DataKeyring


def event(body: bytes = b"{}", id_: str = "evt_1", tenant_id: str = "acme") -> Event:
    normalized = Normalized("t", None, None, "k", b"h" * 32, None, {})
    facts = Facts("text/plain", None, "", 1)
    return routed(
        topology(), tenant_id, "shop", normalized, facts, body, callback_url=None, event_id=id_
    )


def writer(log: MemoryLog, **options: Any) -> EventWriter:
    return EventWriter(log, KeyMaker(log, VAULT, log.book, 4), 4, **options)


def bodies(log: MemoryLog) -> list[bytes]:
    return [log.body(ENVELOPE.decode(record.value)) for record in log.on("events.received")]


async def test_a_tenants_first_event_makes_a_key_that_the_next_ones_use() -> None:
    log = MemoryLog()
    kept = writer(log)
    await asyncio.gather(*(kept.store(event(b"%d" % n, f"evt_{n}")) for n in range(20)))
    await kept.store(event(b"later", "evt_later"))
    [made] = log.on("tenants")
    assert log.records[0] == made
    assert {ENVELOPE.decode(r.value).payload_ref.key_id for r in log.on("events.received")} == {
        TENANT.decode(made.value).id
    }
    assert bodies(log) == [*(b"%d" % n for n in range(20)), b"later"]


async def test_each_tenant_has_a_key_of_its_own() -> None:
    log = MemoryLog()
    for tenant_id in ("acme", "bolt"):
        await writer(log).store(event(tenant_id=tenant_id))
    assert {TENANT.decode(r.value).tenant_id for r in log.on("tenants")} == {"acme", "bolt"}


class SlowToWrap:
    """A key-encryption key on another host, which answers when it is let."""

    key_id = "kms/slow"

    def __init__(self) -> None:
        self.asked, self.through = threading.Event(), threading.Event()

    def wrap(self, tenant_id: str, purpose: str, secret: bytes) -> bytes:
        self.asked.set()
        assert self.through.wait(10), "the event loop waits for it"
        return secret

    def unwrap(self, tenant_id: str, purpose: str, wrapped: bytes) -> bytes:
        return wrapped


async def test_a_slow_key_encryption_key_holds_nobody_else_up() -> None:
    slow, log = SlowToWrap(), MemoryLog()
    vault = Vault(slow)
    log.book = DataKeyring(vault)
    store = asyncio.create_task(
        EventWriter(log, KeyMaker(log, vault, log.book, 4), 4).store(event())
    )
    while not slow.asked.is_set():
        await asyncio.sleep(0.001)  # as everybody else's requests go on
    slow.through.set()
    await store
    assert bodies(log) == [b"{}"]


async def test_two_processes_at_once_make_two_keys_that_both_hold() -> None:
    log = MemoryLog()
    one, two = KeyMaker(log, VAULT, log.book, 4), KeyMaker(log, VAULT, log.book, 4)
    for keys in (one, two):
        key = await keys.make("acme")
        await log.send("payloads", b"", key.seal("evt_1", 0, b"x"), partition=0)
        assert (await asyncio.wrap_future(log.book.find("acme", key.key_id))).key_id == key.key_id
    assert len(log.on("tenants")) == 2


async def test_without_a_durable_key_nothing_is_sealed() -> None:
    log = MemoryLog(down=True)
    with pytest.raises(KafkaUnavailable):
        await writer(log).store(event())
    assert log.records == []
    log.down = False
    await writer(log).store(event())
    assert bodies(log) == [b"{}"]


async def test_a_key_that_is_not_read_back_seals_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingress.receive.key_maker._MADE_SECONDS", 0.05)
    log, elsewhere = MemoryLog(), MemoryLog()
    keys = KeyMaker(log, VAULT, elsewhere.book, 4)
    with pytest.raises(KafkaUnavailable, match="not read back"):
        await EventWriter(log, keys, 4).store(event())
    assert log.on("payloads") == []
    assert not elsewhere.book._waiting


async def test_one_who_gives_up_waiting_for_a_key_does_not_end_it_for_the_others() -> None:
    class Slow(MemoryLog):
        async def send(self, topic: str, *record: Any, **more: Any) -> int:
            if topic == "tenants":
                await go_on.wait()
            return await super().send(topic, *record, **more)

    go_on, log = asyncio.Event(), Slow()
    kept = writer(log)
    hasty = asyncio.create_task(kept.store(event(id_="evt_1")))
    patient = asyncio.create_task(kept.store(event(id_="evt_2")))
    await asyncio.sleep(0)
    hasty.cancel()
    await asyncio.wait([hasty])
    go_on.set()
    await patient
    assert len(log.on("tenants")) == 1
    assert bodies(log) == [b"{}"]


async def test_a_late_event_of_an_erased_tenant_brings_no_key_back() -> None:
    """The erasure comes between the making of the key and its record, as on the real topic."""

    class Erasing(MemoryLog):
        async def send(self, topic: str, key: Any, value: Any, **more: Any) -> int:
            if topic == "tenants" and not self.on("tenants"):
                erasure = TENANT.encode(TenantRecord("acme", "erasure", "", True, "{}"))
                await super().send(topic, tenant_key("acme", "erasure", ""), erasure, **more)
            return await super().send(topic, key, value, **more)

    log = Erasing()
    with pytest.raises(Erased):
        await writer(log).store(event())
    assert log.on("payloads") == []
    assert log.on("events.received") == []
    _, made, deleted = log.on("tenants")
    assert (made.key, deleted.value) == (deleted.key, None)


async def test_a_body_of_25_mib_is_stored_in_50_chunks_that_open_in_order() -> None:
    log, body = MemoryLog(), bytes(range(256)) * (25 * 4096)
    await writer(log).store(event(body))
    [envelope] = [ENVELOPE.decode(record.value) for record in log.on("events.received")]
    assert envelope.payload_ref.offsets == tuple(range(50))
    assert envelope.payload_ref.size == 25 * 1024 * 1024
    assert bodies(log) == [body]


async def test_an_empty_body_is_stored_without_a_chunk() -> None:
    log = MemoryLog()
    await writer(log).store(event(b""))
    assert log.on("payloads") == []
    assert bodies(log) == [b""]


async def test_sealed_copies_are_bounded_over_all_bodies_and_everyones_turn_comes() -> None:
    class Counting(MemoryLog):
        held = most = 0

        async def send(self, topic: str, key: Any, value: Any, **more: Any) -> int:
            if topic != "payloads":
                return await super().send(topic, key, value, **more)
            self.held += len(value)
            self.most = max(self.most, self.held)
            await asyncio.sleep(0)
            offset = await super().send(topic, key, value, **more)
            self.held -= len(value)
            return offset

    log = Counting()
    kept = writer(log, window_bytes=3 * CHUNK_BYTES)
    large, small = bytes(5 * CHUNK_BYTES), b"small"
    await asyncio.gather(
        *(kept.store(event(large, f"evt_{n}", f"tenant-{n}")) for n in range(8)),
        kept.store(event(small, "evt_s")),
    )
    assert log.most <= 3 * (CHUNK_BYTES + 28)
    assert sorted(map(len, bodies(log))) == [5, *[5 * CHUNK_BYTES] * 8]


async def test_a_partition_that_acknowledges_nothing_leaves_room_for_the_others() -> None:
    """Those who give up meanwhile leave their room to the next of their own partition."""
    log, silent, other = SilentLog(only=0), tenant_on(0), tenant_on(1)
    kept = writer(log, window_bytes=8 * CHUNK_BYTES)
    for tenant_id in (silent, other):
        await kept.store(event(b"", "evt_key", tenant_id))
    chunk, large = bytes(CHUNK_BYTES), bytes(9 * CHUNK_BYTES)
    waiting = [asyncio.create_task(kept.store(event(chunk, f"evt_{n}", silent))) for n in range(20)]
    await asyncio.sleep(0)
    assert log.held == 2
    async with asyncio.timeout(10):
        await kept.store(event(large, "evt_other", other))
    *given_up, patient = waiting
    for each in given_up:
        each.cancel()
    log.silent = "nothing"
    await asyncio.wait(given_up)
    async with asyncio.timeout(10):
        await patient
        await kept.store(event(large, "evt_later", silent))


async def test_who_gives_up_before_the_window_of_all_leaves_the_room_of_its_partition() -> None:
    log, tenants = SilentLog(), [tenant_on(number) for number in range(3)]
    kept = writer(log, window_bytes=2 * CHUNK_BYTES)
    for tenant_id in tenants:
        await kept.store(event(b"", "evt_key", tenant_id))
    stored = [
        asyncio.create_task(kept.store(event(bytes(CHUNK_BYTES), "evt_1", each)))
        for each in (*tenants, tenants[2])
    ]
    await asyncio.sleep(0)
    assert log.held == 2
    stored[2].cancel()
    await asyncio.wait([stored[2]])
    log.silent = "nothing"
    stored[0].cancel()
    async with asyncio.timeout(10):
        await stored[3]
    stored[1].cancel()


async def test_a_tenant_that_floods_a_partition_holds_up_no_other_tenant_there() -> None:
    log = SilentLog(only=0)
    one, *_ = tenants = [t for n in range(200) if partition_for(t := f"tenant-{n}", 4) == 0][:2]
    kept = writer(log, window_bytes=8 * CHUNK_BYTES)
    for tenant_id in tenants:
        await kept.store(event(b"", "evt_key", tenant_id))
    flood = [
        asyncio.create_task(kept.store(event(bytes(CHUNK_BYTES), f"evt_{n}", one)))
        for n in range(20)
    ]
    await asyncio.sleep(0)
    other = asyncio.create_task(kept.store(event(b"small", "evt_other", tenants[1])))
    await asyncio.sleep(0)
    log.silent = "nothing"
    flood[0].cancel()
    async with asyncio.timeout(10):
        await asyncio.gather(other, *flood[2:])
    assert bodies(log).index(b"small") < 4
    flood[1].cancel()
