"""A body is read once for all who want it, and kept while there is room."""

from __future__ import annotations

import asyncio
import tracemalloc
from concurrent.futures import Future

import pytest

from streams.delivery import bodies as module
from streams.delivery.bodies import KafkaBodies
from streams.errors import PermanentError, TransientError
from streams.process.bounded_cache import ENTRY_BYTES
from streams.serde.codec import TENANT
from streams.serde.keys import tenant_key
from streams.serde.records import PayloadRef, TenantRecord
from streams.settings import Settings
from streams.vault.data_key import DataKey, new_key_record
from streams.vault.key_encryption import local_vault
from streams.vault.keyring import DataKeyring

VAULT = local_vault(b"k" * 32)


class Payloads:
    """Bodies of 10 bytes by offset; the reads that hang wait for `answer`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, most_bytes: int = 1_000_000) -> None:
        monkeypatch.setattr(module, "_MOST_BYTES", most_bytes)
        self.keys = DataKeyring(VAULT)
        record = new_key_record(VAULT, "acme")
        self.key = DataKey(VAULT, record)
        self.keys.apply(tenant_key("acme", "data_key", record.id), TENANT.encode(record))
        self.read: list[int] = []
        self.hanging: list[tuple[PayloadRef, Future[list[bytes]]]] = []
        self.hangs = False
        self.bodies = KafkaBodies(Settings(bootstrap="127.0.0.1:1"), self.keys, lambda _: None)
        monkeypatch.setattr(self.bodies._reader, "fetch", self._fetch)

    def _fetch(self, ref: PayloadRef) -> Future[list[bytes]]:
        future = Future[list[bytes]]()
        self.read.append(ref.offsets[0])
        self.hanging.append((ref, future))
        if not self.hangs:
            self.answer()
        return future

    def answer(self, error: Exception | None = None) -> None:
        for ref, future in self.hanging:
            if error is not None:
                future.set_exception(error)
                continue
            body = b"%010d" % ref.offsets[0]
            future.set_result([self.key.seal(f"evt_{ref.offsets[0]}", 0, body)])
        self.hanging.clear()

    async def open(self, number: int) -> bytes:
        ref = PayloadRef(0, (number,), 10, self.key.key_id)
        return await self.bodies.open("acme", f"evt_{number}", ref)

    async def reading(self) -> None:
        async with asyncio.timeout(10):
            while not self.hanging:
                await asyncio.sleep(0)


@pytest.fixture
def payloads(monkeypatch: pytest.MonkeyPatch) -> Payloads:
    return Payloads(monkeypatch)


async def test_a_thousand_endpoints_of_an_event_read_its_body_once(payloads: Payloads) -> None:
    payloads.hangs = True
    opening = [asyncio.create_task(payloads.open(1)) for _ in range(1_000)]
    await payloads.reading()
    payloads.answer()
    assert set(await asyncio.gather(*opening)) == {b"0000000001"}
    assert await payloads.open(1) == b"0000000001"
    assert payloads.read == [1]


async def test_an_attempt_that_is_given_up_takes_no_body_from_another(payloads: Payloads) -> None:
    payloads.hangs = True
    given_up, other = (asyncio.create_task(payloads.open(1)) for _ in range(2))
    await payloads.reading()
    given_up.cancel()
    await asyncio.wait([given_up])
    payloads.answer()
    assert await other == b"0000000001"
    assert given_up.cancelled()


async def test_the_bodies_that_were_used_last_are_kept_within_the_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    payloads = Payloads(monkeypatch, most_bytes=3 * (ENTRY_BYTES + 20))
    for number in (1, 2, 3, 1, 4):  # 2 is the one that was not used for longest
        await payloads.open(number)
    assert payloads.read == [1, 2, 3, 4]
    for number in (1, 3, 4, 2):
        await payloads.open(number)
    assert payloads.read == [1, 2, 3, 4, 2]


async def test_small_bodies_count_with_all_that_they_take(monkeypatch: pytest.MonkeyPatch) -> None:
    payloads, many = Payloads(monkeypatch), 4_000
    tracemalloc.start()
    try:
        for number in range(many):
            await payloads.open(number)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < 1_500_000
    await payloads.open(many - 1)
    assert len(payloads.read) == many
    await payloads.open(0)
    assert len(payloads.read) == many + 1


@pytest.mark.parametrize("error", [TransientError("not now"), PermanentError("gone")])
async def test_a_body_that_could_not_be_read_is_read_again_by_the_next(
    payloads: Payloads, error: Exception
) -> None:
    payloads.hangs = True
    opening = asyncio.create_task(payloads.open(1))
    await payloads.reading()
    payloads.answer(error)
    with pytest.raises(type(error)):
        await opening
    payloads.hangs = False
    assert await payloads.open(1) == b"0000000001"


async def test_a_body_of_an_erased_tenant_is_gone_even_if_it_was_opened_before(
    payloads: Payloads,
) -> None:
    await payloads.open(1)
    erasure = TENANT.encode(TenantRecord("acme", "erasure", "", True, "{}"))
    payloads.keys.apply(tenant_key("acme", "erasure", ""), erasure)
    with pytest.raises(PermanentError, match="acme was erased"):
        await payloads.open(1)
