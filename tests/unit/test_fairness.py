"""Which job goes next."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from streams.fairness import Lane, Ready, ReadyQueue
from streams.topology.model import Priority

PRIORITIES = {
    name: Priority(name, start)
    for name, start in (("webhook", 0), ("interactive", 60), ("batch", -300))
}


def queue(*entries: Ready) -> ReadyQueue:
    built = ReadyQueue(PRIORITIES)
    for entry in entries:
        built.push(entry)
    return built


def entry(id_: str, tenant: str = "acme", at: int = 0, priority: str = "webhook") -> Ready:
    return Ready(at, id_, tenant, "draft", priority)


def anything(lane: Lane) -> bool:
    return True


def drain(ready: ReadyQueue, now: int = 0) -> list[Ready]:
    taken = []
    while (one := ready.take(now, anything)) is not None:
        taken.append(one)
    return taken


def test_one_tenants_jobs_go_oldest_first() -> None:
    ready = queue(entry("b", at=2), entry("a", at=1), entry("c", at=3))
    assert [one.job_id for one in drain(ready)] == ["a", "b", "c"]


def test_a_tenant_that_floods_does_not_hold_up_another() -> None:
    flood = [entry(f"f{n:03}", "flood", at=0) for n in range(100)]
    ready = queue(*flood, *(entry(f"s{n}", "small", at=5_000) for n in range(3)))
    first = [ready.take(6_000, anything) for _ in range(7)]
    assert Counter(one.tenant_id for one in first if one)["small"] == 3


def test_what_a_tenant_has_running_counts_against_it() -> None:
    ready = queue(entry("a", "busy"), entry("b", "idle", at=1))
    for _ in range(5):
        ready.started("busy")
    assert [one.job_id for one in drain(ready)] == ["b", "a"]


def test_a_tenant_that_was_away_comes_back_without_credit() -> None:
    ready = queue(*(entry(f"a{n:03}", "old") for n in range(200)))
    for _ in range(100):
        ready.take(0, anything)
    for n in range(50):
        ready.push(entry(f"b{n}", "new"))
    next_ten = Counter(one.tenant_id for one in (ready.take(0, anything) for _ in range(10)) if one)
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
    ready.take(100_000, anything)
    for n in range(3):
        ready.push(entry(f"b{n}", "small", at=100_000))
    tenants = [one.tenant_id for one in (ready.take(100_001, anything) for _ in range(6)) if one]
    assert tenants.count("small") == 3


def test_a_lane_that_is_not_allowed_waits_and_keeps_its_place() -> None:
    ready = queue(entry("a"), entry("b", "other", at=1))
    taken = ready.take(1, lambda lane: lane.tenant_id != "acme")
    assert taken is not None
    assert taken.job_id == "b"
    assert [one.job_id for one in drain(ready)] == ["a"]


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
