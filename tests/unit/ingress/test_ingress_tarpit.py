"""Refusals are held back the longer the more of them wait, and never too long or too many."""

from __future__ import annotations

import asyncio

import pytest

from ingress.rates import tarpit
from ingress.rates.tarpit import MOST_SECONDS, Tarpit


class Sleeps:
    """`asyncio.sleep` that notes its times and ends when it is let go."""

    def __init__(self) -> None:
        self.asked: list[float] = []
        self.go_on = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        self.asked.append(seconds)
        await self.go_on.wait()


@pytest.fixture
def sleeps(monkeypatch: pytest.MonkeyPatch) -> Sleeps:
    found = Sleeps()
    monkeypatch.setattr(asyncio, "sleep", found.sleep)
    return found


async def held(sleeps: Sleeps, *holds: asyncio.Task[float]) -> list[float]:
    """What each hold returned, once all had begun and were let go."""
    async with asyncio.timeout(5):
        await asyncio.wait(holds, timeout=0)
        sleeps.go_on.set()
        return await asyncio.gather(*holds)


async def test_each_further_refusal_of_a_tenant_waits_for_one_more_turn(sleeps: Sleeps) -> None:
    kept = Tarpit()
    holds = [asyncio.create_task(kept.hold("acme", 0.1)) for _ in range(3)]
    other = asyncio.create_task(kept.hold("bolt", 0.1))
    assert await held(sleeps, *holds, other) == [0.0] * 4
    assert sleeps.asked == pytest.approx([0.1, 0.2, 0.3, 0.1])


async def test_none_is_held_for_more_than_a_second_and_the_rest_is_told(sleeps: Sleeps) -> None:
    kept = Tarpit()
    assert await held(sleeps, asyncio.create_task(kept.hold("acme", 6.5))) == [5.5]
    assert sleeps.asked == [MOST_SECONDS]


async def test_when_many_are_held_the_next_is_answered_at_once(
    sleeps: Sleeps, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tarpit, "_MOST_HELD", 2)
    kept = Tarpit()
    holds = [asyncio.create_task(kept.hold(tenant, 0.1)) for tenant in ("acme", "bolt")]
    await asyncio.wait(holds, timeout=0)
    assert await kept.hold("cody", 0.1) == 0.1
    await held(sleeps, *holds)
    assert len(sleeps.asked) == 2


async def test_a_sender_that_goes_away_gives_its_place_back(sleeps: Sleeps) -> None:
    kept = Tarpit()
    gone = asyncio.create_task(kept.hold("acme", 0.1))
    await asyncio.wait([gone], timeout=0)
    gone.cancel()
    await asyncio.wait([gone])
    await held(sleeps, asyncio.create_task(kept.hold("acme", 0.1)))
    assert sleeps.asked == [0.1, 0.1]
