"""Workers, their credits and their leases as one partition knows them."""

from __future__ import annotations

import dataclasses

import pytest

from streams.dispatcher.active_leases import ActiveLease
from streams.dispatcher.jobs import FIRST, from_submission
from streams.dispatcher.worker_registry import WorkerRegistry
from streams.serde.records import Command, Handler, Heartbeat, HeldLease, Job, Submit
from streams.topology.load import load
from streams.topology.model import LeasePolicy

TYPES = ("draft", "refund")
TOPOLOGY = load()


@pytest.fixture
def registry() -> WorkerRegistry:
    return WorkerRegistry(LeasePolicy())


def beat(
    worker: str,
    free: int = 4,
    received: int = 0,
    *,
    types: tuple[str, ...] = TYPES,
    leases: tuple[HeldLease, ...] = (),
    pool: str = "default",
) -> Heartbeat:
    handlers = tuple(Handler(type_, 3, (), 60) for type_ in types)
    return Heartbeat(worker, pool, 3, free, leases, handlers, received=received)


def running(number: int, worker: str, type_: str = "draft") -> Job:
    submit = Submit(type_, "{}", None, None, None, None, None, None, b"", None)
    command = Command("c", "acme", f"job_{number:04}", 0, 0, submit)
    job = from_submission(command, submit, TOPOLOGY, place=FIRST, at=0, now=0)
    return dataclasses.replace(job, status="running", epoch=1, worker_id=worker)


def grant(registry: WorkerRegistry, number: int, type_: str = "draft") -> ActiveLease:
    worker = registry.freest("default", type_)
    assert worker is not None
    registry.granted(running(number, worker.worker_id, type_), worker)
    return registry.running[f"job_{number:04}"]


def credits(registry: WorkerRegistry, worker: str) -> int:
    found = registry.worker(worker)
    assert found is not None
    return found.credits


def test_a_lease_on_its_way_is_counted_on_one_side_only(registry: WorkerRegistry) -> None:
    registry.heard(beat("w/1", free=3), "h1", 0)
    assert [grant(registry, n).number for n in range(2)] == [1, 2]
    assert credits(registry, "w/1") == 1
    registry.heard(beat("w/1", free=3, received=0), "h2", 1)
    assert credits(registry, "w/1") == 1, "it had read neither when it said so"
    registry.heard(beat("w/1", free=2, received=1), "h3", 2)
    assert credits(registry, "w/1") == 1
    registry.announced("w/1", 2, 2)
    assert credits(registry, "w/1") == 2, "it has read both, and one has ended"


def test_a_word_that_comes_late_counts_for_nothing(registry: WorkerRegistry) -> None:
    registry.heard(beat("w/1", free=3), "h1", 0)
    for number in range(2):
        grant(registry, number)
    registry.announced("w/1", 0, 2)
    registry.announced("w/1", 2, 1)
    assert credits(registry, "w/1") == 0


def test_credits_never_go_below_none_and_a_worker_without_any_is_not_picked(
    registry: WorkerRegistry,
) -> None:
    registry.heard(beat("w/1", free=1), "h1", 0)
    grant(registry, 1)
    registry.announced("w/1", 0, 0)
    assert (credits(registry, "w/1"), registry.freest("default", "draft")) == (0, None)
    assert registry.able("default") == set()


def test_a_lease_that_was_never_read_gives_its_credit_back(registry: WorkerRegistry) -> None:
    registry.heard(beat("w/1", free=2), "h1", 0)
    lost, read = grant(registry, 1), grant(registry, 2)
    registry.over(lost.job_id)
    assert credits(registry, "w/1") == 1
    registry.announced("w/1", 0, 2)
    assert credits(registry, "w/1") == 0, "both were read after all"
    registry.over(read.job_id)
    assert credits(registry, "w/1") == 0, "a slot that was filled is offered by its worker alone"


def test_the_worker_with_most_credits_that_handles_the_type_is_picked(
    registry: WorkerRegistry,
) -> None:
    registry.heard(beat("a/1", free=2), "h", 0)
    registry.heard(beat("b/1", free=3, types=("draft",)), "h", 0)
    registry.heard(beat("c/1", free=9, pool="other"), "h", 0)
    picks = [grant(registry, n).worker_id for n in range(3)]
    assert picks == ["b/1", "a/1", "b/1"] or picks == ["b/1", "b/1", "a/1"]
    assert grant(registry, 4, "refund").worker_id == "a/1"
    assert registry.able("default") == {"draft"}


def test_a_silent_worker_gets_nothing_and_is_forgotten_later(registry: WorkerRegistry) -> None:
    registry.heard(beat("busy/1", free=2), "h", 0)
    registry.heard(beat("idle/1", free=0), "h", 0)
    registry.pass_time(13)
    assert (registry.able("default"), registry.types("default")) == (set(), set(TYPES))
    registry.pass_time(31)
    assert registry.worker("busy/1") is None
    assert registry.worker("idle/1") is not None, "it has nothing here, and is heard once a minute"
    registry.pass_time(151)
    assert registry.types("default") == set()
    assert (registry._workers, registry._pools, registry._boots._newest) == ({}, {}, {})


def test_a_silent_worker_that_is_heard_again_is_leased_to_again(registry: WorkerRegistry) -> None:
    registry.heard(beat("w/1"), "h", 0)
    registry.pass_time(13)
    registry.heard(beat("w/1"), "h", 14)
    assert registry.able("default") == set(TYPES)


def test_a_process_that_is_heard_first_with_a_lease_of_before_renews_it(
    registry: WorkerRegistry,
) -> None:
    lease = ActiveLease("job_0001", 1, "w/1", "acme", "draft", "default", 30)
    registry.resume(lease, 0)
    listed = (HeldLease("job_0001", 1, False),)
    registry.heard(beat("w/1", received=7, leases=listed), "h", 20)
    assert lease.ends_at == 50
    assert credits(registry, "w/1") == 4, "what it read before counts for nothing here"


def test_a_later_boot_takes_over_at_once_and_gets_the_leases_of_the_earlier(
    registry: WorkerRegistry,
) -> None:
    registry.heard(beat("w/1"), "h", 0)
    lease = grant(registry, 1)
    assert registry.heard(beat("w/2"), "h", 1) == [lease]
    assert registry.heard(beat("w/1"), "h", 2) == [], "its late word counts for nothing"
    assert (registry.worker("w/1"), registry.heard(beat("w/2"), "h", 3)) == (None, [lease])
    registry.over(lease.job_id)
    assert registry.heard(beat("w/2"), "h", 4) == []


def test_a_restarted_worker_with_a_clock_behind_is_heard_once_the_other_is_silent(
    registry: WorkerRegistry,
) -> None:
    registry.heard(beat("w/2"), "h", 0)
    lease = grant(registry, 1)
    assert registry.heard(beat("w/1"), "h", 12) == []
    assert registry.worker("w/1") is None
    assert registry.heard(beat("w/1"), "h", 13) == [lease]
    assert credits(registry, "w/1") == 4
    assert registry.succeeds("w/1", lease.worker_id)


def test_after_a_takeover_a_process_that_holds_leases_counts_as_heard(
    registry: WorkerRegistry,
) -> None:
    lease = ActiveLease("job_0001", 1, "w/2", "acme", "draft", "default", 30)
    registry.resume(lease, 100)
    assert registry.heard(beat("w/1"), "h", 101) == []
    assert registry.heard(beat("w/1"), "h", 113) == [lease]


def test_a_process_that_leaves_is_forgotten_with_what_it_still_had(
    registry: WorkerRegistry,
) -> None:
    registry.heard(beat("w/1"), "h", 0)
    leases = [grant(registry, n) for n in range(2)]
    assert registry.left("w/1") == leases
    assert (registry.worker("w/1"), registry.able("default")) == (None, set())


def test_overdue_leases_come_in_parts_the_earliest_first(registry: WorkerRegistry) -> None:
    registry.heard(beat("w/1", free=9), "h1", 0)
    early = [grant(registry, n) for n in range(3)]
    registry.heard(beat("w/1", free=9, received=3), "h2", 5)
    late = [grant(registry, n) for n in range(3, 5)]
    assert registry.overdue(29, 9) == []
    assert registry.overdue(30, 2) == early[:2]
    assert registry.overdue(35, 9) == early + late
    held = tuple(HeldLease(lease.job_id, 1, False) for lease in early)
    registry.heard(beat("w/1", leases=held, received=5), "h3", 35)
    assert registry.overdue(35, 9) == late


def test_fresh_terms_put_off_the_end_of_every_lease(registry: WorkerRegistry) -> None:
    registry.heard(beat("w/1"), "h1", 0)
    lease = grant(registry, 1)
    registry.fresh_terms(100)
    assert registry.overdue(129, 9) == []
    assert registry.overdue(130, 9) == [lease]


def test_each_worker_without_credits_is_asked_at_most_once_a_second(
    registry: WorkerRegistry,
) -> None:
    for number in range(10):
        registry.heard(beat(f"w{number}/1", free=0), "h", 0)
    registry.heard(beat("rich/1", free=1), "h", 0)
    registry.heard(beat("other/1", free=0, types=("mail",)), "h", 0)
    asked = [w.worker_id for _ in range(4) for w in registry.to_ask("default", {"draft"}, 4, 1)]
    assert sorted(asked) == [f"w{number}/1" for number in range(10)]
    assert list(registry.to_ask("default", {"draft"}, 4, 1.9)) == []
    assert len(list(registry.to_ask("default", {"draft"}, 4, 2.1))) == 4


def test_workers_that_cannot_help_do_not_hide_one_that_can(registry: WorkerRegistry) -> None:
    for number in range(200):
        registry.heard(beat(f"w{number}/1", free=0, types=("mail",)), "h", 0)
    registry.heard(beat("able/1", free=0), "h", 0)
    rounds = [[w.worker_id for w in registry.to_ask("default", {"draft"}, 4, 1)] for _ in range(4)]
    assert rounds == [[], [], [], ["able/1"]]


def test_a_type_that_a_worker_turned_out_not_to_handle_goes_elsewhere(
    registry: WorkerRegistry,
) -> None:
    registry.heard(beat("w/1", free=5), "h", 0)
    registry.forget_type("w/1", "draft")
    assert (registry.able("default"), credits(registry, "w/1")) == ({"refund"}, 5)
    registry.left("w/1")
    assert registry._pools == {}
