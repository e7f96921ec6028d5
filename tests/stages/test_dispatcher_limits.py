"""Limits: how many jobs run at once, and start in a time, by what they are counted by."""

from __future__ import annotations

import dataclasses
import itertools
import json
import random
from collections import Counter
from typing import Any

import pytest
from support.dispatching import Desk, ScriptedWorker

from streams.dispatcher import lease as leases
from streams.dispatcher import limit_rows
from streams.dispatcher.stage import Dispatcher
from streams.dispatcher.workers.roster import Roster
from streams.limits.buckets import Bucket
from streams.serde.codec import JOB
from streams.serde.records import Job, Settle
from streams.topology.limits import Limit, Rate

CUSTOMER = Limit("one_a_customer", "key", by="input.customer", concurrency=1)
EFFECT = "email:send/reply"
ODD = ("*", ":", "", "a:b", "null", None, "é" * 3_000, "x" * 4_096, "x" * 4_095 + "y", 7, "7")
"""Values that a text joined of parts, a glob or a column would confuse."""


def submit(desk: Desk, job_id: str, customer: Any = None, tenant: str = "acme", **of: Any) -> None:
    body = json.dumps({"customer": customer})
    desk.submit(job_id, input=body, tenant=tenant, **of)


def jobs(desk: Desk) -> dict[str, Job]:
    newest = {record.key: record.value for record in desk.driver.output("jobs")}
    found = [JOB.decode(value) for value in newest.values() if value is not None]
    return {job.job_id: job for job in found}


def running(desk: Desk) -> set[str]:
    return {job.job_id for job in jobs(desk).values() if job.status == "running"}


def end(desk: Desk, worker: ScriptedWorker, job_id: str) -> None:
    worker.end(desk.lease(job_id), "succeeded")


def test_each_value_of_a_key_has_the_cap_to_itself_within_its_tenant() -> None:
    desk = Desk(CUSTOMER)
    worker = ScriptedWorker(desk)
    submit(desk, "a1", "ann")
    submit(desk, "a2", "ann")
    submit(desk, "b1", "bob")
    submit(desk, "far", "ann", "globex")
    worker.heartbeat()
    assert running(desk) == {"a1", "b1", "far"}
    end(desk, worker, "b1")
    assert running(desk) == {"a1", "far"}
    end(desk, worker, "a1")
    assert running(desk) == {"a2", "far"}


def test_a_long_backlog_of_one_value_hides_no_other_job() -> None:
    desk = Desk(CUSTOMER)
    with desk.held_back():
        for number in range(600):
            submit(desk, f"a{number}", "ann")
        submit(desk, "b1", "bob")
    ScriptedWorker(desk).heartbeat()
    desk.driver.advance(1)
    assert running(desk) == {"a0", "b1"}


def test_values_of_any_characters_stay_apart_and_none_is_a_value_too() -> None:
    desk = Desk(CUSTOMER)
    with desk.held_back():
        for number, value in enumerate(ODD):
            submit(desk, f"first{number}", value)
            submit(desk, f"second{number}", value)
    ScriptedWorker(desk, slots=50).heartbeat()
    assert running(desk) == {f"first{number}" for number in range(len(ODD))}


def test_jobs_for_which_an_expression_fails_share_one_bucket() -> None:
    desk = Desk(Limit("each", "key", by="length(input.customer)", concurrency=1))
    submit(desk, "a", 5)
    submit(desk, "b", None)
    submit(desk, "c", "ann")
    ScriptedWorker(desk).heartbeat()
    assert running(desk) == {"a", "c"}, "numbers and null have no length"


@pytest.mark.parametrize("match", ["refund", "ref*"])
def test_a_tenant_has_a_cap_of_its_own_for_a_type(match: str) -> None:
    desk = Desk(Limit("refunds", "job_type", match, per="tenant", concurrency=1))
    for tenant in ("acme", "globex"):
        for number in range(2):
            desk.submit(f"{tenant}{number}", "refund", tenant=tenant)
            desk.submit(f"{tenant}d{number}", tenant=tenant)
    ScriptedWorker(desk).heartbeat()
    drafts = {"acmed0", "acmed1", "globexd0", "globexd1"}
    assert running(desk) == {"acme0", "globex0"} | drafts


def test_events_of_a_source_are_counted_together_and_submissions_are_not() -> None:
    desk = Desk(Limit("of_zendesk", "source", "zen*", concurrency=1))
    first, second = desk.event("t1"), desk.event("t2", "globex")
    desk.submit("submitted")
    worker = ScriptedWorker(desk)
    worker.heartbeat()
    (one,) = running(desk) - {"submitted"}
    assert one in (first, second)
    end(desk, worker, one)
    assert running(desk) == {first, second, "submitted"} - {one}


def test_a_pool_has_a_cap_over_its_workers() -> None:
    desk = Desk(Limit("in_default", "pool", "default", concurrency=2))
    for number in range(4):
        desk.submit(f"j{number}")
    ScriptedWorker(desk, slots=2).heartbeat()
    ScriptedWorker(desk, "w2/b1", slots=2).heartbeat()
    assert running(desk) == {"j0", "j1"}


def test_several_limits_hold_one_job_and_none_is_filled_by_one_that_waits() -> None:
    desk = Desk(CUSTOMER, Limit("refunds", "job_type", "refund", per="tenant", concurrency=1))
    submit(desk, "a1", "ann")
    submit(desk, "r1", "bob", type_="refund")
    submit(desk, "r2", "ann", type_="refund")
    submit(desk, "r3", "cy", type_="refund")
    worker = ScriptedWorker(desk)
    worker.heartbeat()
    assert running(desk) == {"a1", "r1"}
    end(desk, worker, "r1")
    assert running(desk) == {"a1", "r3"}, "r2 waits for ann, and takes no place among refunds"


def test_a_backlog_of_one_tenant_holds_up_no_other_under_a_cap_of_both() -> None:
    desk = Desk(Limit("of_zendesk", "source", "zendesk", concurrency=1))
    loud = [desk.event(f"l{number}", "loud") for number in range(300)]
    worker = ScriptedWorker(desk)
    worker.heartbeat()
    quiet = desk.event("q", "quiet")
    for _ in range(3):
        (now,) = running(desk)
        if now == quiet:
            break
        end(desk, worker, now)
    assert running(desk) == {quiet}
    assert jobs(desk)[loud[-1]].status == "pending"


def contended(type_: str) -> tuple[Desk, ScriptedWorker]:
    """A job that needs two places, and others that fill one or the other in turn for 30 s."""
    desk = Desk(
        Limit("left", "key", by="input.left", concurrency=1),
        Limit("right", "key", by="input.right", concurrency=1),
    )
    worker = ScriptedWorker(desk)
    worker.heartbeat()

    def one(job_id: str, left: Any, right: Any, type_: str = "draft_reply") -> None:
        desk.submit(job_id, type_, input=json.dumps({"left": left, "right": right}))

    one("l0", 1, "a")
    one("r0", "b", 1)
    one("both", 1, 1, type_)
    for turn in range(1, 31):
        one(f"l{turn}", 1, f"a{turn}")
        one(f"r{turn}", f"b{turn}", 1)
        for job_id in sorted(running(desk)):
            end(desk, worker, job_id)
            desk.driver.advance(0.5)
            worker.heartbeat(*(desk.lease(each) for each in running(desk)))
    return desk, worker


def test_a_job_that_needs_two_places_is_not_passed_over_for_ever() -> None:
    desk, _ = contended("draft_reply")
    assert jobs(desk)["both"].status == "succeeded"
    assert jobs(desk)["l30"].status == "pending", "the others were there all the time"


def test_places_that_are_kept_for_a_job_without_a_worker_are_given_up() -> None:
    desk, worker = contended("nobody_handles")
    for _ in range(60):
        for job_id in running(desk):
            end(desk, worker, job_id)
        desk.driver.advance(0.5)
        worker.heartbeat()
    assert {job.job_id for job in jobs(desk).values() if job.status != "succeeded"} == {"both"}


def test_a_token_of_a_lease_that_was_taken_back_is_there_at_once() -> None:
    desk = Desk(Limit("slow", "tenant", "*", rate=Rate(1, 86_400)))
    desk.submit("a")
    worker = ScriptedWorker(desk)
    with desk.held_back():
        worker.heartbeat()
        desk.abort()
    desk.driver.advance(0.3)
    assert running(desk) == {"a"}


def test_a_token_of_a_lease_that_a_worker_refuses_is_there_again() -> None:
    desk = Desk(Limit("slow", "key", by="tenant_id", rate=Rate(1, 86_400)))
    desk.submit("a")
    desk.submit("b")
    worker = ScriptedWorker(desk)
    worker.heartbeat()
    assert running(desk) == {"a"}
    worker.decline(desk.lease("a"))
    desk.driver.advance(1)
    worker.heartbeat()
    desk.driver.advance(1)
    assert running(desk) == {"a"}
    end(desk, worker, "a")
    desk.driver.restart("dispatcher")
    desk.driver.advance(60)
    worker.heartbeat()
    assert running(desk) == set(), "a lease that is not refused keeps its token"


def starts_of_rate(desk: Desk, worker: ScriptedWorker, seconds: float, apart: float) -> list[int]:
    """When jobs start while workers are always free, in milliseconds from now."""
    began, seen, starts = desk.driver.now, len(desk.leases()), list[int]()
    while desk.driver.now - began < seconds * 1000:
        worker.heartbeat(free=100)
        desk.driver.advance(apart)
        found = desk.leases()
        starts += [desk.driver.now - began] * (len(found) - seen)
        seen = len(found)
    return starts


def test_a_rate_lets_its_burst_start_and_then_one_at_each_token() -> None:
    desk = Desk(Limit("a_minute", "tenant", "*", rate=Rate(60, 60), burst=3))
    for number in range(20):
        desk.submit(f"j{number}")
        submit(desk, f"far{number}", tenant="globex")
    worker = ScriptedWorker(desk, slots=100)
    worker.heartbeat()
    assert len(running(desk)) == 6, "the burst of each tenant"
    starts = starts_of_rate(desk, worker, 5, 0.1)
    assert len(starts) == 10
    late = [at % 1000 for at in starts]
    assert max(late) <= 300, "a job that waits for a rate starts at its token"


@pytest.mark.parametrize("keep_state", [True, False])
def test_no_window_has_more_starts_than_its_budget_over_restarts(keep_state: bool) -> None:
    desk = Desk(Limit("each", "key", by="input.customer", rate=Rate(10, 10), burst=2))
    for number in range(200):
        submit(desk, f"j{number}", "ann")
    worker, starts, began = ScriptedWorker(desk, slots=500), list[int](), desk.driver.now
    for _ in range(6):
        offset = desk.driver.now - began
        starts += [at + offset for at in starts_of_rate(desk, worker, 3.3, 0.2)]
        desk.driver.restart("dispatcher", keep_state=keep_state)
        desk.driver.advance(0.3)
    assert len(starts) >= 8, "and the rate is used"
    for first, at in enumerate(starts):
        for last in range(first, len(starts)):
            window = (starts[last] - at) / 1000 + 0.2  # a start is seen up to 0.2 s late
            assert last - first + 1 <= 2 + window + 1e-9


def test_what_was_spent_of_a_rate_is_forgotten_once_its_burst_is_whole() -> None:
    desk = Desk(Limit("each", "key", by="input.customer", rate=Rate(1, 1)))
    store = desk.driver.store("dispatcher", "parts")
    for number in range(300):
        submit(desk, f"j{number}", number)
    ScriptedWorker(desk, slots=400).heartbeat()
    desk.driver.advance(0.1)
    assert len(running(desk)) == 300
    assert sum(1 for _ in store.range(b"L", b"M")) == 300
    desk.driver.advance(3)
    assert sum(1 for _ in store.range(b"L", b"M")) == 0


def test_what_was_spent_of_many_rates_is_loaded_in_parts() -> None:
    desk = Desk(Limit("each", "key", by="input.customer", rate=Rate(1, 86_400)))
    task = desk.driver.task("dispatcher")
    for number in range(5_000):
        limit_rows.put(task.stores["parts"], Bucket("each", "acme", str(number)), desk.driver.now)
    fresh = Dispatcher(desk.topology, Roster(desk.topology.leases), 0)
    rates, loaded = fresh.shared.queue.limited.caps.rates, [0]
    for _ in fresh.restored(task.ctx):
        loaded.append(len(rates._arrivals))
    assert loaded[-1] == 5_000
    assert max(now - before for before, now in itertools.pairwise(loaded)) <= 2_000


@pytest.mark.parametrize("keep_state", [True, False])
def test_a_tenants_weight_is_its_share_of_the_starts_at_once_and_after_a_restart(
    keep_state: bool,
) -> None:
    desk = Desk(Limit("all", "global", concurrency=1))
    worker = ScriptedWorker(desk)
    for number in range(40):
        desk.submit(f"h{number}", tenant="heavy")
        desk.submit(f"p{number}", tenant="plain")
    desk.tenant("heavy", weight=3)
    desk.driver.restart("dispatcher", keep_state=keep_state)
    desk.driver.advance(0.5)
    worker.heartbeat()
    seen: Counter[str] = Counter()
    for _ in range(24):
        (job_id,) = running(desk)
        seen[job_id[0]] += 1
        end(desk, worker, job_id)
    assert seen == {"h": 18, "p": 6}


def test_a_tenant_whose_record_says_nothing_of_it_weighs_one() -> None:
    desk = Desk()
    store = desk.driver.store("dispatcher", "parts")
    desk.tenant("acme", weight=3)
    assert store.get(b"Wacme") == b"3.0"
    desk.tenant("acme")
    assert store.get(b"Wacme") is None


def test_nothing_is_kept_of_the_weight_of_an_erased_tenant() -> None:
    desk = Desk()
    store = desk.driver.store("dispatcher", "parts")
    desk.tenant("acme", weight=3)
    desk.tenant("acme", "erasure")
    assert store.get(b"Wacme") is None
    desk.tenant("acme", weight=3)
    assert store.get(b"Wacme") is None


def test_a_limit_that_is_new_counts_the_jobs_that_run_and_those_that_wait() -> None:
    desk = Desk()
    submit(desk, "a1", "ann")
    worker = ScriptedWorker(desk)
    worker.heartbeat()
    desk.deploy(limits=(CUSTOMER,))
    desk.driver.advance(1)
    submit(desk, "a2", "ann")
    worker.heartbeat(desk.lease("a1"))
    assert running(desk) == {"a1"}
    end(desk, worker, "a1")
    assert running(desk) == {"a2"}


def test_a_limit_that_is_gone_holds_nobody_back() -> None:
    desk = Desk(CUSTOMER)
    submit(desk, "a1", "ann")
    submit(desk, "a2", "ann")
    worker = ScriptedWorker(desk)
    worker.heartbeat()
    desk.deploy(limits=())
    desk.driver.advance(1)
    worker.heartbeat(desk.lease("a1"))
    assert running(desk) == {"a1", "a2"}


def test_no_place_is_kept_for_a_job_until_a_token_that_is_far_off() -> None:
    report = Limit("reports", "key", by="input.report", rate=Rate(1, 86_400))
    desk = Desk(CUSTOMER, report)

    def one(job_id: str, customer: str, report: str) -> None:
        desk.submit(job_id, input=json.dumps({"customer": customer, "report": report}))

    one("first", "cy", "daily")
    one("a1", "ann", "other")
    one("both", "ann", "daily")
    worker = ScriptedWorker(desk)
    worker.heartbeat()
    assert running(desk) == {"first", "a1"}
    end(desk, worker, "a1")
    worker.stay(20, desk.lease("first"))
    one("a2", "ann", "third")
    worker.heartbeat(desk.lease("first"))
    assert running(desk) == {"first", "a2"}


def test_a_lease_that_is_too_large_spends_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "MAX_LEASE_BYTES", 20_000)
    desk = Desk(Limit("slow", "key", by="input.customer", rate=Rate(1, 86_400)))
    submit(desk, "large", "x" * 30_000)
    submit(desk, "next", "x" * 30_000)
    desk.submit("ends", input=json.dumps({"customer": "ann", "more": "x" * 30_000}))
    submit(desk, "runs", "ann")
    ScriptedWorker(desk).heartbeat()
    desk.driver.advance(1)
    assert {job_id: job.status for job_id, job in jobs(desk).items()} == {
        "large": "dead",
        "next": "dead",
        "ends": "dead",
        "runs": "running",
    }


def test_what_was_spent_of_a_rate_does_not_pile_up_while_much_is_spent() -> None:
    desk = Desk(Limit("each", "key", by="input.customer", rate=Rate(10, 1)))
    store = desk.driver.store("dispatcher", "parts")
    worker = ScriptedWorker(desk, slots=10_000)
    for turn in range(15):
        with desk.held_back():
            for number in range(150):
                submit(desk, f"j{turn}.{number}", f"{turn}.{number}")
        worker.heartbeat()
        desk.driver.advance(0.2)
    assert len(running(desk)) == 2_250
    assert sum(1 for _ in store.range(b"L", b"M")) <= 600


def test_a_limit_with_a_new_name_is_not_overrun_by_what_runs_among_many_jobs() -> None:
    desk = Desk(CUSTOMER)
    submit(desk, "z1", "ann")
    worker = ScriptedWorker(desk)
    worker.heartbeat()
    with desk.held_back():
        submit(desk, "z2", "ann")
        for number in range(1_200):
            desk.submit(f"a{number}", "nobody_handles")
    desk.deploy(limits=(dataclasses.replace(CUSTOMER, name="renamed"),))
    desk.driver.advance(0.3)
    worker.heartbeat(desk.lease("z1"))
    assert running(desk) == {"z1"}
    end(desk, worker, "z1")
    assert running(desk) == {"z2"}


def test_a_limit_that_is_new_counts_a_job_that_a_person_lets_go_on() -> None:
    desk = Desk()
    worker = ScriptedWorker(desk)
    worker.heartbeat()
    submit(desk, "a1", "ann")
    worker.claim(desk.lease("a1"))
    worker.end(desk.lease("a1"), "retry", after=0, error="TransientError: x")
    assert worker.claim(desk.lease("a1")).kind == "review"
    worker.end(desk.lease("a1"), "review", error="who knows")
    assert jobs(desk)["a1"].status == "needs_review"
    desk.deploy(limits=(CUSTOMER,))
    desk.driver.advance(400)
    submit(desk, "a2", "ann")
    worker.heartbeat()
    assert running(desk) == {"a2"}
    desk.command(Settle(EFFECT, "done", None, "asked", "ops"), "a1")
    assert jobs(desk)["a1"].status == "pending"
    assert running(desk) == {"a2"}
    end(desk, worker, "a2")
    assert running(desk) == {"a1"}


@pytest.mark.long
@pytest.mark.parametrize("seed", range(8))
def test_whatever_happens_no_cap_is_overrun_and_no_job_waits_that_could_run(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "MAX_LEASE_BYTES", 20_000)
    limits = (
        Limit("customers", "key", by="input.customer", concurrency=2),
        Limit("refunds", "job_type", "refund", per="tenant", concurrency=2),
        Limit("tenants", "tenant", concurrency=5),
        Limit("all", "global", concurrency=8),
    )
    desk, chance = Desk(*limits), random.Random(seed)
    workers = [ScriptedWorker(desk, f"w{n}/b1", slots=5) for n in range(3)]
    for number in range(60):
        with desk.held_back():
            for step in range(chance.randint(1, 6)):
                something(desk, workers, chance, f"{number}.{step}")
            if chance.random() < 0.4:
                desk.abort()
        if chance.random() < 0.1:
            desk.driver.restart("dispatcher", keep_state=chance.random() < 0.5)
        desk.driver.advance(chance.choice((0.2, 0.2, 0.2, 6, 35)))
        chance.choice(workers).heartbeat(free=20)
        desk.driver.advance(0.3)
        assert startable(desk) == []


def something(desk: Desk, workers: list[ScriptedWorker], chance: random.Random, key: str) -> None:
    worker = chance.choice(workers)
    living = worker.leases()
    lease = chance.choice(living) if living else None
    match chance.randrange(9):
        case 0 | 1 | 2 | 3:
            tenant, type_ = (
                chance.choice(("acme", "globex")),
                chance.choice(("refund", "draft_reply")),
            )
            submit(desk, f"j{key}", chance.choice(("ann", "bob", None)), tenant, type_=type_)
        case 4:
            worker.heartbeat(*living)
        case 5 if lease:
            worker.end(lease, chance.choice(("succeeded", "retry", "released", "failed")))
        case 6 if lease:
            worker.decline(lease)
        case 7:
            desk.submit(f"j{key}", input=f'"{"x" * chance.choice((5, 30_000))}"')
        case 8:
            desk.cancel(chance.choice((f"j{key}", lease.job_id if lease else "gone")))


def startable(desk: Desk) -> list[str]:
    """The jobs that wait though no cap keeps them from running; no cap is overrun."""
    found = jobs(desk).values()
    by_customer = Counter(map(customer, filter(runs, found)))
    by_tenant = Counter(job.tenant_id for job in filter(runs, found))
    refunds = Counter(job.tenant_id for job in filter(runs, found) if job.type == "refund")
    assert max(by_customer.values(), default=0) <= 2
    assert max(refunds.values(), default=0) <= 2
    assert max(by_tenant.values(), default=0) <= 5
    assert sum(by_tenant.values()) <= 8
    return [
        job.job_id
        for job in found
        if job.status == "pending"
        if by_customer[customer(job)] < 2
        if job.type != "refund" or refunds[job.tenant_id] < 2
        if by_tenant[job.tenant_id] < 5
        if sum(by_tenant.values()) < 8
    ]


def runs(job: Job) -> bool:
    return job.status == "running"


def customer(job: Job) -> tuple[str, Any]:
    body = json.loads(job.input)
    return job.tenant_id, body.get("customer") if isinstance(body, dict) else None
