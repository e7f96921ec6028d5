"""A few seeds with the product's whole worker: its event loop, its handlers, its vault."""

from __future__ import annotations

import random

import pytest
from support.whole_flow import STAGES, STORES, TICKETS, Flow, flow

from streams.runtime.memory_broker import CrashPoint
from streams.serde.job_states import TERMINAL

POINTS: tuple[CrashPoint, ...] = ("before_commit", "after_commit", "between_writes", "after_write")


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
async def test_effects_are_done_once_whoever_dies(seed: int) -> None:
    rng = random.Random(seed)
    async with flow() as at:
        at.disturb = lambda: _disturb(at, rng)
        for ticket in rng.sample((*TICKETS, *TICKETS), k=len(TICKETS) * 2):
            at.deliver(*ticket)
            await _worker_may_die(at, rng)
            await at.advance(rng.choice((0, 0, 1, 4)))
        at.disturb = lambda: None
        await at.until(lambda: _at_rest(at), "every job has ended or waits for a person")
    effects = {call: times for call, times in at.outside.calls.items() if call[0] != "draft"}
    refunds = [times for (action, *_), times in effects.items() if action == "refund"]
    assert refunds == [1] * len(refunds), "no key is honoured there: begun once"
    assert len(at.outside.keys) <= len(effects), "an e-mail is repeated under its own key"


def _disturb(at: Flow, rng: random.Random) -> None:
    match rng.randrange(25):
        case 0:
            at.lose_store(*rng.choice(STORES))
        case 1 | 2:
            at.driver.crash(rng.choice(STAGES), rng.choice(POINTS))


async def _worker_may_die(at: Flow, rng: random.Random) -> None:
    if rng.random() < 0.2:
        for _ in range(rng.randrange(4)):
            at._exchange()
        await at.kill_worker()
        at.start_worker()
    elif rng.random() < 0.5:
        await at.settle()


def _at_rest(at: Flow) -> bool:
    jobs = at.jobs().values()
    return bool(jobs) and all(j.status in TERMINAL or j.status == "needs_review" for j in jobs)
