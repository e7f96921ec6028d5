"""One event is stored once while it is remembered, and remembered only once it is stored."""

from __future__ import annotations

import asyncio

import pytest

from ingress.receive.duplicates import Duplicates, Receipt
from streams.errors import KafkaUnavailable


class Storage:
    """Stores when told to; `failures` first attempts fail."""

    def __init__(self, failures: int = 0) -> None:
        self.attempts = 0
        self.failures = failures
        self.allowed = asyncio.Event()
        self.entered = asyncio.Event()

    async def store(self) -> Receipt:
        self.attempts += 1
        attempt = self.attempts
        self.entered.set()
        await self.allowed.wait()
        if attempt <= self.failures:
            raise KafkaUnavailable("down")
        return Receipt(f"evt_{attempt}", "job_1")


async def test_a_repeated_event_gets_the_first_ones_receipt() -> None:
    duplicates, storage = Duplicates(), Storage()
    storage.allowed.set()
    first = await duplicates.once(b"f", storage.store)
    again = await duplicates.once(b"f", storage.store)
    assert (first, again) == ((Receipt("evt_1", "job_1"), False), (Receipt("evt_1", "job_1"), True))
    assert storage.attempts == 1


async def test_twins_wait_for_the_first_and_do_not_store() -> None:
    duplicates, storage = Duplicates(), Storage()
    tasks = [asyncio.create_task(duplicates.once(b"f", storage.store)) for _ in range(5)]
    await storage.entered.wait()
    storage.allowed.set()
    answers = await asyncio.gather(*tasks)
    assert [repeated for _, repeated in answers].count(False) == 1
    assert {receipt for receipt, _ in answers} == {Receipt("evt_1", "job_1")}
    assert storage.attempts == 1


async def test_a_twin_stores_the_event_itself_when_the_first_failed() -> None:
    duplicates, storage = Duplicates(), Storage(failures=1)
    tasks = [asyncio.create_task(duplicates.once(b"f", storage.store)) for _ in range(3)]
    await storage.entered.wait()
    storage.allowed.set()
    first, *others = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(first, KafkaUnavailable)
    receipt = Receipt("evt_2", "job_1")
    assert others == [(receipt, False), (receipt, True)]


async def test_a_cancelled_first_lets_its_twin_proceed() -> None:
    duplicates, storage = Duplicates(), Storage()
    first = asyncio.create_task(duplicates.once(b"f", storage.store))
    await storage.entered.wait()
    twin = asyncio.create_task(duplicates.once(b"f", storage.store))
    first.cancel()
    storage.allowed.set()
    assert await twin == (Receipt("evt_2", "job_1"), False)
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_a_failure_is_not_remembered() -> None:
    duplicates, storage = Duplicates(), Storage(failures=1)
    storage.allowed.set()
    with pytest.raises(KafkaUnavailable):
        await duplicates.once(b"f", storage.store)
    assert await duplicates.once(b"f", storage.store) == (Receipt("evt_2", "job_1"), False)


async def test_a_receipt_is_forgotten_after_its_time_which_no_repetition_prolongs() -> None:
    now = 0.0
    duplicates, storage = Duplicates(seconds=10, clock=lambda: now), Storage()
    storage.allowed.set()
    await duplicates.once(b"f", storage.store)
    now = 9.9
    assert (await duplicates.once(b"f", storage.store))[1]
    now = 10.0
    assert not (await duplicates.once(b"f", storage.store))[1]


async def test_the_least_recently_asked_for_leaves_first() -> None:
    duplicates, storage = Duplicates(entries=2), Storage()
    storage.allowed.set()
    for fingerprint in (b"a", b"b", b"a", b"c"):
        await duplicates.once(fingerprint, storage.store)
    repeated = {f: (await duplicates.once(f, storage.store))[1] for f in (b"a", b"c", b"b")}
    assert repeated == {b"a": True, b"c": True, b"b": False}
