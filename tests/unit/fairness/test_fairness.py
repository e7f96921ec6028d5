"""Which job goes next."""

from __future__ import annotations

import random
from collections import Counter
from math import inf
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.plain_queue import PlainQueue

from streams.fairness import stride
from streams.fairness.ready_queue import Ready, ReadyQueue
from streams.topology.model import Priority

PRIORITIES = {
    name: Priority(name, start)
    for name, start in (("webhook", 0), ("interactive", 60), ("batch", -300))
}


TYPES = ("draft", "refund", "mail")
LAG = stride.LAG // stride.START
"""In starts of a tenant of weight 1."""


def queue(*entries: Ready) -> ReadyQueue:
    built = ReadyQueue(PRIORITIES, lambda tenant: inf)
    built.handle(set(TYPES), 0)
    for entry in entries:
        built.push(entry)
    return built


def entry(
    id_: str, tenant: str = "acme", at: int = 0, priority: str = "webhook", type_: str = "draft"
) -> Ready:
    return Ready(at, id_, tenant, type_, priority)


def drain(ready: ReadyQueue, now: int = 0) -> list[Ready]:
    taken = []
    while (one := ready.take(now, TYPES)) is not None:
        taken.append(one)
    return taken


def test_one_tenants_jobs_go_oldest_first() -> None:
    ready = queue(entry("b", at=2), entry("a", at=1), entry("c", at=3))
    assert [one.job_id for one in drain(ready)] == ["a", "b", "c"]


def test_a_tenant_that_floods_does_not_hold_up_another() -> None:
    flood = [entry(f"f{n:03}", "flood", at=0) for n in range(100)]
    ready = queue(*flood, *(entry(f"s{n}", "small", at=5_000) for n in range(3)))
    first = [ready.take(6_000, TYPES) for _ in range(7)]
    assert Counter(one.tenant_id for one in first if one)["small"] == 3


def test_what_a_tenant_has_running_counts_against_it() -> None:
    ready = queue(entry("a", "busy"), entry("b", "idle", at=1))
    for _ in range(5):
        ready.started("busy")
    assert [one.job_id for one in drain(ready)] == ["b", "a"]


def test_a_tenant_that_was_away_comes_back_without_credit() -> None:
    ready = queue(*(entry(f"a{n:03}", "old") for n in range(200)))
    for _ in range(100):
        ready.take(0, TYPES)
    for n in range(50):
        ready.push(entry(f"b{n}", "new"))
    next_ten = Counter(one.tenant_id for one in (ready.take(0, TYPES) for _ in range(10)) if one)
    assert next_ten["old"] >= 4


def test_priority_goes_first_until_another_has_starved() -> None:
    ready = queue(
        entry("i", at=0, priority="interactive"),
        entry("w", at=0),
        entry("b", at=0, priority="batch"),
    )
    assert [one.job_id for one in drain(ready, now=1_000)] == ["i", "w", "b"]
    starved = queue(
        entry("old", "x", at=0, priority="batch"),
        entry("new", "y", at=361_000, priority="interactive"),
    )
    starved.started("y")
    assert [one.job_id for one in drain(starved, now=361_000)] == ["old", "new"]


def test_a_long_backlog_that_is_being_served_does_not_rise() -> None:
    ready = queue(*(entry(f"a{n}", "flood") for n in range(20)))
    ready.take(100_000, TYPES)
    for n in range(3):
        ready.push(entry(f"b{n}", "small", at=100_000))
    tenants = [one.tenant_id for one in (ready.take(100_001, TYPES) for _ in range(6)) if one]
    assert tenants.count("small") == 3


def test_a_type_that_is_not_asked_for_waits_and_keeps_its_place() -> None:
    ready = queue(entry("a"), entry("b", "other", at=1, type_="refund"))
    taken = ready.take(1, ["refund", "mail"])
    assert taken is not None
    assert taken.job_id == "b"
    assert [one.job_id for one in drain(ready)] == ["a"]


def test_a_tenant_at_its_cap_is_set_aside_and_comes_back_without_credit() -> None:
    capped = {"acme"}
    ready = ReadyQueue(PRIORITIES, lambda tenant: tenant not in capped)
    ready.handle(set(TYPES), 0)
    for n in range(40):
        ready.push(entry(f"a{n:02}"))
        ready.push(entry(f"b{n:02}", "other"))
    assert {one.tenant_id for _ in range(20) if (one := ready.take(0, TYPES))} == {"other"}
    capped.clear()
    ready.capped("acme")
    next_ten = Counter(one.tenant_id for _ in range(10) if (one := ready.take(0, TYPES)))
    assert next_ten["other"] >= 4, "what it missed at its cap is no credit"


WAITS = {
    "for the cap of its type": entry("a0", "waits", type_="refund"),
    "behind a higher priority": entry("a0", "waits", priority="batch"),
}


@pytest.mark.parametrize("first", WAITS.values(), ids=WAITS)
def test_a_tenant_that_waits_in_the_order_gives_a_newcomer_no_credit(first: Ready) -> None:
    """Its pass stands still, and the newcomer would be served until it has caught up."""
    ready = queue(first, *(entry(f"b{n:04}", "old") for n in range(1_000)))
    for _ in range(900):
        ready.take(0, ["draft"])
    for n in range(100):
        ready.push(entry(f"n{n:02}", "new"))
    next_100 = Counter(one.tenant_id for _ in range(100) if (one := ready.take(0, ["draft"])))
    assert next_100["old"] >= (100 - LAG) // 2 - 1


def test_a_tenant_that_waits_in_the_order_saves_up_little_credit() -> None:
    ready = queue(*(entry(f"a{n:03}", "waits", type_="refund") for n in range(100)))
    for n in range(1_000):
        ready.push(entry(f"b{n:04}", "old"))
    for _ in range(900):
        ready.take(0, ["draft"])
    next_100 = Counter(one.tenant_id for _ in range(100) if (one := ready.take(0, TYPES)))
    assert next_100["old"] >= (100 - LAG) // 2 - 1
    assert next_100["waits"] >= 50, "it is not passed over either"


def test_a_tenant_with_many_long_jobs_is_served_as_often_as_one_with_short_jobs() -> None:
    """What it has running keeps its pass behind; that is no credit."""
    ready = queue()
    for n in range(600):
        ready.push(entry(f"l{n:03}", "long"))
        ready.push(entry(f"s{n:03}", "short"))
    served: Counter[str] = Counter()
    for _ in range(100):
        ready.started("long")
    for _ in range(600):
        one = ready.take(0, TYPES)
        assert one is not None
        served[one.tenant_id] += 1
        ready.started(one.tenant_id)
        ready.ended(one.tenant_id)  # or an earlier job of the same tenant
    assert served["long"] >= (600 - 100) // 2 - 1


def test_tenants_that_wait_start_as_many_jobs_as_they_weigh() -> None:
    ready = queue()
    ready.weigh("heavy", 3)
    for n in range(400):
        for tenant in ("heavy", "plain", "light"):
            ready.push(entry(f"{tenant}{n:03}", tenant))
    ready.weigh("light", 0.5)
    next_90 = Counter(one.tenant_id for _ in range(90) if (one := ready.take(0, TYPES)))
    assert next_90 == {"heavy": 60, "plain": 20, "light": 10}
    ready.weigh("heavy", 1)
    ready.weigh("light", 1)
    next_90 = Counter(one.tenant_id for _ in range(90) if (one := ready.take(0, TYPES)))
    assert min(next_90.values()) >= 29, "a weight takes effect at once, and for what comes"


def test_a_tenant_that_weighs_very_little_starts_as_little_as_it_says() -> None:
    ready = queue()
    ready.weigh("light", 0.01)
    for n in range(400):
        ready.push(entry(f"light{n:03}", "light"))
        ready.push(entry(f"plain{n:03}", "plain"))
    next_303 = Counter(one.tenant_id for _ in range(303) if (one := ready.take(0, TYPES)))
    assert next_303 == {"plain": 300, "light": 3}


def test_a_tenant_that_weighs_more_may_have_more_running_before_others_go_first() -> None:
    ready = queue()
    ready.weigh("heavy", 3)
    for n in range(100):
        ready.push(entry(f"h{n:03}", "heavy"))
        ready.push(entry(f"p{n:03}", "plain"))
    running: Counter[str] = Counter()
    for _ in range(80):
        one = ready.take(0, TYPES)
        assert one is not None
        ready.started(one.tenant_id)
        running[one.tenant_id] += 1
    assert running == {"heavy": 60, "plain": 20}


def test_what_is_kept_of_tenants_does_not_grow_with_starts() -> None:
    ready = queue(entry("a", "waits", type_="refund"), entry("b", "busy"))
    for n in range(10_000):
        ready.take(0, ["draft"])
        ready.push(entry(f"b{n}", "busy"))
    passes = ready._passes
    assert len(passes._order) + len(passes._departed) + len(passes.tenants) < 10


def test_many_tenants_are_forgotten_a_part_at_a_time() -> None:
    ready = queue(entry("a", "waits", type_="refund"))
    for n in range(200):
        ready.push(entry(f"j{n:03}", f"tenant{n:03}"))
    for _ in range(200):
        ready.take(0, ["draft"])
    tenants = ready._passes.tenants
    assert len(tenants) == 201
    ready.remove("a")
    assert 0 < len(tenants) < 200
    for _ in range(3):
        ready.started("busy")
        ready.ended("busy")
    assert len(tenants) == 0


def test_jobs_of_a_type_that_nobody_handles_hold_no_floor_down() -> None:
    ready = queue(*(entry(f"a{n:02}", "old") for n in range(60)))
    ready.push(entry("u", "waits", type_="unknown"))
    for _ in range(40):
        ready.take(0, TYPES)
    for n in range(20):
        ready.push(entry(f"n{n:02}", "new"))
    next_ten = Counter(one.tenant_id for _ in range(10) if (one := ready.take(0, TYPES)))
    assert next_ten["old"] >= 4


def test_a_type_is_taken_once_a_worker_handles_it_and_no_longer_when_none_does() -> None:
    ready = queue(entry("x", type_="unknown"), entry("y", "other", at=1))
    ready.handle({"unknown"}, 5)
    assert [one.job_id for one in (ready.take(5, ["unknown", "draft"]),) if one] == ["x"]
    assert ready.take(5, ["unknown", "draft"]) is None
    assert (ready.by_type(), ready.ready_since("draft", 1, 9)) == ({"draft": 1}, ["y"])
    assert ready.ready_since("draft", 0, 9) == []
    assert (ready.by_type_of("other"), ready.by_type_of("acme")) == ({"draft": 1}, {})


def test_tenants_without_waiting_or_running_jobs_are_forgotten() -> None:
    ready = queue(*(entry(f"j{n}", f"tenant{n}") for n in range(50)))
    assert len(ready._passes.tenants) == 50
    for one in drain(ready):
        ready.started(one.tenant_id)
    assert len(ready._passes.tenants) == 50, "what runs is counted"
    for n in range(50):
        ready.ended(f"tenant{n}")
    assert len(ready._passes.tenants) == 0


def test_removed_jobs_do_not_stay_in_memory_behind_an_older_one() -> None:
    ready = queue(entry("first"), *(entry(f"j{n}", at=1) for n in range(1_000)))
    for n in range(1_000):
        ready.remove(f"j{n}")
    (lane,) = ready._lanes.values()
    assert len(lane.jobs) < 20


def test_an_older_job_that_comes_late_makes_its_lane_rise_earlier() -> None:
    ready = queue(entry("a", "busy", at=100_000), entry("y", "idle", at=105_000))
    for _ in range(5):
        ready.started("busy")
    ready.advance(106_000)
    ready.push(entry("older", "busy", at=50_000))
    ready.advance(107_000)
    ready.advance(111_000)
    taken = ready.take(111_000, TYPES)
    assert taken is not None
    assert taken.job_id == "older"


def test_after_a_flood_of_tenants_lanes_rise_a_part_at_a_time() -> None:
    ready = queue(*(entry(f"j{n:03}", f"tenant{n:03}") for n in range(200)))
    ready.advance(0)
    ready.advance(60_000)
    risen = sum(lane.level == 3 for lane in ready._lanes.values())
    assert 0 < risen < 200
    for _ in range(4):
        ready.advance(60_000)
    assert all(lane.level == 3 for lane in ready._lanes.values())


def test_what_was_removed_never_comes_also_when_pushed_again() -> None:
    ready = queue(entry("a"), entry("b", at=1))
    ready.remove("a")
    assert (len(ready), ready.oldest()) == (1, 1)
    ready.push(entry("a", at=9))
    assert [one.job_id for one in drain(ready)] == ["b", "a"]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["x", "y", "z"]),
            st.integers(0, 10**6),
            st.sampled_from(list(PRIORITIES)),
        ),
        max_size=60,
    )
)
def test_every_job_comes_out_exactly_once(jobs: list[tuple[str, int, str]]) -> None:
    entries = [entry(f"j{n}", tenant, at, p) for n, (tenant, at, p) in enumerate(jobs)]
    assert sorted(drain(queue(*entries), now=10**6)) == sorted(entries)


TENANTS = ("x", "y", "z", "w")
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("push"),
            st.sampled_from(TENANTS),
            st.sampled_from((*TYPES, "unknown")),
            st.sampled_from((*PRIORITIES, "undeclared")),
            st.integers(-400, 30),
        ),
        st.tuples(st.just("take"), st.sets(st.sampled_from(TYPES), min_size=1)),
        st.tuples(st.just("take"), st.just(set(TYPES))),
        st.tuples(st.just("end"), st.integers(0, 9)),
        st.tuples(st.just("remove"), st.integers(0, 99)),
        st.tuples(st.just("again"), st.integers(0, 99)),
        st.tuples(st.just("pass"), st.integers(0, 400)),
        st.tuples(st.just("cap"), st.sampled_from(TENANTS), st.integers(0, 3)),
        st.tuples(st.just("weigh"), st.sampled_from(TENANTS), st.sampled_from((0.1, 1, 3, 50))),
        st.tuples(st.just("handle"), st.sets(st.sampled_from((*TYPES, "unknown")))),
    ),
    max_size=80,
)


class Pair:
    """The queue and the plain one, told the same; `check` says that they show the same."""

    def __init__(self) -> None:
        self.caps = dict.fromkeys(TENANTS, 9)
        self.running: list[str] = []
        self.pushed: list[Ready] = []
        self.now = 0
        self.queues = (ReadyQueue(PRIORITIES, self.room), PlainQueue(PRIORITIES, self.free))
        self.handle(set(TYPES))

    def room(self, tenant: str) -> int:
        return max(0, self.caps[tenant] - self.running.count(tenant))

    def free(self, tenant: str) -> bool:
        return self.room(tenant) > 0

    def push(self, tenant: str, type_: str, priority: str, at: int) -> None:
        ready_at = self.now + at * 1000
        ready = Ready(ready_at, f"j{len(self.pushed)}", tenant, type_, priority)
        self.pushed.append(ready)
        for one in self.queues:
            one.push(ready)

    def take(self, types: set[str]) -> None:
        taken, expected = (one.take(self.now, types) for one in self.queues)
        assert taken == expected
        if taken is not None:
            self.running.append(taken.tenant_id)
            for one in self.queues:
                one.started(taken.tenant_id)

    def end(self, number: int) -> None:
        if number < len(self.running):
            tenant = self.running.pop(number)
            for one in self.queues:
                one.ended(tenant)

    def remove(self, number: int) -> None:
        for one in self.queues:
            one.remove(f"j{number}")

    def again(self, number: int) -> None:
        if number < len(self.pushed):
            for one in self.queues:
                one.push(self.pushed[number])

    def cap(self, tenant: str, most: int) -> None:
        self.caps[tenant] = most
        for one in self.queues:
            one.capped(tenant)

    def weigh(self, tenant: str, weight: float) -> None:
        for one in self.queues:
            one.weigh(tenant, weight)

    def handle(self, types: set[str]) -> None:
        for one in self.queues:
            one.handle(types, self.now)

    def waiting(self) -> set[str]:
        return {lane.tenant.id for lane in self.queues[0]._lanes.values()}

    def check(self) -> None:
        queue, plain = self.queues
        assert isinstance(queue, ReadyQueue)
        assert isinstance(plain, PlainQueue)
        assert (len(queue), queue.oldest()) == (len(plain), plain.oldest())
        assert queue.by_type() == plain.by_type()
        assert set(queue._passes.tenants) == plain.needed()
        waiting = plain.by_tenant().items()
        assert queue.within_caps == sum(min(jobs, self.room(tenant)) for tenant, jobs in waiting)

    def do(self, step: tuple[Any, ...]) -> None:
        name, *values = step
        if name == "pass":
            self.now += values[0] * 1000
            self.queues[0].advance(self.now)  # as a punctuation does
        else:
            getattr(self, name)(*values)
        self.check()

    def empty(self) -> None:
        """Take whatever may be taken."""
        self.handle({*TYPES, "unknown"})
        while len(self.queues[0]) and any(map(self.free, self.waiting())):
            self.take({*TYPES, "unknown"})
            self.check()


@settings(deadline=None, max_examples=200)
@given(STEPS)
def test_every_step_is_that_of_the_plain_queue(steps: list[tuple[Any, ...]]) -> None:
    pair = Pair()
    for step in steps:
        pair.do(step)
    pair.empty()


@pytest.mark.parametrize("lag", [2, LAG])
@pytest.mark.parametrize("seed", range(12))
def test_a_long_walk_is_that_of_the_plain_queue(
    seed: int, lag: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stride, "LAG", lag * stride.START)
    pair, chance = Pair(), random.Random(seed)
    for number in range(1_500):
        kind = chance.choices(
            ("push", "take", "end", "remove", "again", "pass", "cap", "handle", "weigh"),
            (30, 30, 25, 3, 3, 8, 2, 1, 1),
        )[0]
        pair.do(random_step(kind, chance, number))
    pair.empty()


def random_step(kind: str, chance: random.Random, number: int) -> tuple[Any, ...]:
    """One step of a walk; jobs are mostly new and of types that are mostly handled."""
    some = set(chance.sample(TYPES, chance.randint(1, 3)))
    pick = chance.choice
    match kind:
        case "push":
            lag = pick((0, 0, -1, -70, -400, 20))
            return kind, pick(TENANTS), pick((*TYPES, "unknown")), pick((*PRIORITIES, "?")), lag
        case "take":
            return kind, some
        case "end":
            return kind, chance.randint(0, 5)
        case "remove" | "again":
            return kind, max(0, number // 3 - chance.randint(0, 60))
        case "pass":
            return kind, pick((0, 1, 5, 61, 359))
        case "cap":
            return kind, pick(TENANTS), pick((0, 1, 3, 9))
        case "weigh":
            return kind, pick(TENANTS), pick((0.1, 1, 3, 50))
    return kind, {*some, *chance.sample((*TYPES, "unknown"), 2)}
