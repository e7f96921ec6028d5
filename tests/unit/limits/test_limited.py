"""Jobs that limits hold back: what is done for them stays small, however many there are."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import pytest
from support.dispatching import topology

from streams.dispatcher.limited import Limited
from streams.dispatcher.live_index import Live
from streams.fairness.ready_queue import Ready
from streams.limits.buckets import Bucket
from streams.topology.limits import Limit

CUSTOMER = Limit("one_a_customer", "key", by="input.customer", concurrency=1)
REPORT = Limit("one_a_report", "key", by="input.report", concurrency=1)
NEVER = 10_000
"""So many calls are enough for anything."""


def job(customer: int, status: str = "running") -> Live:
    return counted(status, one_a_customer=customer)


def counted(status: str = "pending", at: int = 0, **keys: int) -> Live:
    own = tuple((name, str(key)) for name, key in keys.items())
    return Live(status, at, "acme", "draft", "default", "webhook", 1, None, True, None, own)


def back(limited: Limited) -> list[str]:
    return [each.ready.job_id for each in limited.back(0)]


def test_places_for_which_nobody_waits_delay_nobody() -> None:
    limited = Limited(topology(CUSTOMER))
    for number in range(1_000):
        limited.started(job(number))
    assert limited.waits("late", job(999, "pending"))
    for number in range(1_000):
        limited.ended(job(number))
    assert back(limited) == ["late"]


def test_what_is_remembered_of_jobs_that_came_back_is_forgotten_while_another_waits() -> None:
    limited = Limited(topology(CUSTOMER))
    limited.started(job(0))
    limited.waits("stays", job(0, "pending"))
    for number in range(1, 1_000):
        limited.started(job(1))
        assert limited.waits(f"j{number}", job(1, "pending")._replace(at=number))
        limited.ended(job(1))
        assert back(limited) == [f"j{number}"]
        limited.waits_no_more(f"j{number}")
    assert limited.aside.oldest() == 0
    assert len(limited.aside._oldest) < 50
    assert len(limited.aside._lines) == 1


def test_jobs_whose_other_bucket_is_full_hide_none_when_one_opens() -> None:
    limited = Limited(topology(CUSTOMER, REPORT))
    limited.started(job(1))
    for number in range(20_000):
        assert limited.waits(f"j{number}", counted(at=number, one_a_customer=1, one_a_report=1))
    assert limited.waits("late", counted(at=20_000, one_a_customer=1))
    assert back(limited) == []
    limited.started(counted("running", one_a_report=1))
    limited.ended(job(1))
    assert back(limited) == ["late"]


def test_a_bucket_of_which_many_lines_wait_for_others_delays_no_other_bucket() -> None:
    limited = Limited(topology(CUSTOMER, REPORT))
    limited.started(job(1))
    limited.started(job(2))
    many = range(10_000)
    for number in many:
        limited.waits(f"j{number}", counted(at=number, one_a_customer=1, one_a_report=number))
    limited.waits("quick", counted(at=20_000, one_a_customer=2))
    while limited._unled:
        back(limited)
    for number in many:
        limited.started(counted("running", one_a_report=number))
    limited.ended(job(1))
    limited.ended(job(2))
    assert back(limited) + back(limited) == ["quick"]


def test_jobs_of_a_key_that_is_full_are_not_looked_at_one_by_one_after_a_restart() -> None:
    limited = Limited(topology(CUSTOMER))
    for number in range(5_000):  # the stores have the jobs in the order of their ids
        limited.waits(f"j{number}", job(0, "pending"))
    limited.started(job(0))
    assert back(limited) == []
    limited.ended(job(0))
    assert back(limited) == ["j0"]


def test_the_oldest_jobs_go_first_whatever_the_order_in_which_they_are_restored() -> None:
    limited = Limited(topology(Limit("one_a_customer", "key", by="x", concurrency=3)))
    for at in random.Random(1).sample(range(100), 100):
        limited.waits(f"j{at}", job(0, "pending")._replace(at=at))
    assert back(limited) == ["j0", "j1", "j2"]


def test_jobs_whose_starts_are_taken_back_go_before_younger_ones() -> None:
    limited = Limited(topology(Limit("one_a_customer", "key", by="x", concurrency=2)))
    for at in range(6):
        limited.waits(f"j{at}", job(0, "pending")._replace(at=at))
    assert back(limited) == ["j0", "j1"]
    for at in range(2):
        limited.waits_no_more(f"j{at}")
    assert back(limited) == ["j2", "j3"]
    for at in (1, 0):
        limited.waits(f"j{at}", job(0, "pending")._replace(at=at))
    assert back(limited) == ["j0", "j1"]


class Model:
    """Jobs that wait and run under two limits, started as the run queue does."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        two = Limit("two_a_report", "key", by="input.report", concurrency=2)
        self.limited = Limited(topology(CUSTOMER, two))
        self.waiting: dict[str, Live] = {}
        self.running: dict[str, Live] = {}
        self.queued: set[str] = set()
        self.made = 0

    def enter(self) -> None:
        chance, self.made = self.chance, self.made + 1
        keys = {"one_a_customer": chance.randrange(4), "two_a_report": chance.randrange(4)}
        for name in chance.choice(((), (), ("one_a_customer",), ("two_a_report",))):
            del keys[name]
        self.wait(f"j{self.made:05}", counted("pending", chance.randrange(100), **keys))

    def wait(self, job_id: str, live: Live) -> None:
        self.waiting[job_id] = live
        if not self.limited.waits(job_id, live):
            self.queued.add(job_id)

    def leave(self, job_id: str) -> Live:
        self.queued.discard(job_id)
        self.limited.waits_no_more(job_id)
        return self.waiting.pop(job_id)

    def end(self, *, again: bool) -> None:
        if self.running:
            job_id = self.chance.choice(sorted(self.running))
            live = self.running.pop(job_id)
            self.limited.ended(live)
            if again:
                self.wait(job_id, live)

    def start_some(self, most: int) -> int:
        """Start jobs of the queue that have room; how many."""
        self.queued.update(each.ready.job_id for each in self.limited.back(0))
        begun = 0
        for job_id in sorted(self.queued):
            live = self.waiting[job_id]
            if begun == most:
                break
            if self.limited.held_back(Ready(live.at, job_id, "acme", "draft", "webhook")):
                self.queued.discard(job_id)
                continue
            begun += 1
            self.running[job_id] = self.leave(job_id)
            self.limited.started(live)
        return begun

    def startable(self) -> Iterator[str]:
        caps = self.limited.caps
        for job_id, live in self.waiting.items():
            if caps.full(caps.buckets.of_job(live), job_id) is None:
                yield job_id


@pytest.mark.parametrize("seed", range(30))
def test_whatever_happens_every_job_with_room_is_in_its_queue_in_the_end(seed: int) -> None:
    model = Model(random.Random(seed))
    for _ in range(300):
        match model.chance.randrange(6):
            case 0 | 1:
                model.enter()
            case 2:
                model.end(again=model.chance.random() < 0.4)
            case 3 if model.waiting:
                model.leave(model.chance.choice(sorted(model.waiting)))
            case 4:
                model.start_some(model.chance.choice((0, 1, 3)))
        aside = model.limited.aside
        assert model.queued == set(aside._ahead)
        assert model.waiting.keys() - model.queued == aside._members.keys()
        waiting = Counter[Bucket]()
        for line in aside._lines.values():
            if line.contender is not None:
                waiting[line.contender.bucket] += line.waiting
        assert aside.waiting == waiting
    while model.start_some(NEVER):
        pass
    assert not list(model.startable())
    while model.running:
        model.end(again=False)
        model.start_some(NEVER)
    assert not model.waiting
    assert not model.limited.aside._lines
    assert not model.limited.aside._contenders._orders
