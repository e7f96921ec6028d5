"""Circuit breakers: calls of a tool that keeps failing wait, visibly, until it works again."""

from __future__ import annotations

from prometheus_client import REGISTRY
from support.dispatching import Desk, ScriptedWorker

from streams.serde.records import Lease
from streams.topology.breakers import Breaker
from streams.topology.limits import Limit

BREAKER = Breaker("email:*", failures=2, seconds=60, open_seconds=30)
TOOL = '["email:send",null]'


def started(*limits: Limit, jobs: int = 3) -> tuple[Desk, ScriptedWorker, list[Lease]]:
    desk = Desk(*limits)
    desk.deploy(breakers=(BREAKER,))
    desk.driver.advance(0.5)
    worker = ScriptedWorker(desk, backoff=(3600,), attempts=9)
    worker.heartbeat()
    leases = []
    for number in range(1, jobs + 1):
        leases.append(desk.lease(desk.event(f"t{number}")))
        desk.driver.advance(0.01)  # the first is the oldest
    return desk, worker, leases


def fail(worker: ScriptedWorker, lease: Lease, times: int = 1, *, blames_tool: bool = True) -> None:
    for _ in range(times):
        reply = worker.claim(lease)
        assert reply.kind == "granted"
        worker.outcome(lease, reply, "failed", blames_tool=blames_tool)


def wait(worker: ScriptedWorker, lease: Lease) -> None:
    reply = worker.claim(lease)
    assert (reply.kind, "circuit" in reply.message) == ("full", True)
    worker.end(lease, "full", result=TOOL, error=reply.message)


def has_waited(desk: Desk, *leases: Lease) -> list[bool]:
    """Which jobs of these leases have begun again."""
    return [desk.job(lease.job_id).epoch > lease.epoch for lease in leases]


def test_calls_wait_while_a_tool_fails_and_one_at_a_time_tries_it() -> None:
    desk, worker, (first, second, third) = started()
    fail(worker, first, 2)
    wait(worker, second)
    wait(worker, third)
    assert desk.job(second.job_id).attempts == 0
    worker.stay(29, first)
    assert has_waited(desk, second, third) == [False, False]
    worker.stay(2, first)
    assert has_waited(desk, second, third) == [True, False]
    assert worker.claim(first).kind == "full", "another one tries it"
    again = desk.lease(second.job_id)
    fail(worker, again)
    worker.stay(29, first, again)
    assert has_waited(desk, second, third) == [True, False]
    worker.stay(2, first, again)
    assert has_waited(desk, second, third) == [True, True]
    tries = desk.lease(third.job_id)
    reply = worker.claim(tries)
    assert worker.claim(first).kind == "full"
    worker.outcome(tries, reply, "done")
    assert worker.claim(first).kind == "granted"


def test_a_gauge_shows_how_many_circuits_are_not_closed() -> None:
    desk, worker, (first, _, _) = started()
    fail(worker, first, 2)
    desk.driver.advance(1)
    name, labels = "tidegate_dispatcher_open_circuits", {"partition": "0"}
    assert REGISTRY.get_sample_value(name, labels) == 1
    desk.driver.restart("dispatcher", keep_state=True)
    worker.stay(31, first)
    assert REGISTRY.get_sample_value(name, labels) == 1, "it is tried"
    worker.outcome(first, worker.claim(first), "done")
    desk.driver.advance(1)
    assert REGISTRY.get_sample_value(name, labels) == 0
    desk.driver.close()
    assert REGISTRY.get_sample_value(name, labels) is None


def test_all_that_wait_go_on_once_a_call_is_done() -> None:
    desk, worker, (first, *others) = started(jobs=6)
    late = worker.claim(first, "email:send/late")
    fail(worker, first, 2)
    for lease in others:
        wait(worker, lease)
    worker.outcome(first, late, "done", action="email:send/late")
    assert has_waited(desk, *others) == [True] * 5
    assert not any(desk.job(lease.job_id).limit_keys for lease in others)


def test_refusals_of_a_call_and_other_tools_do_not_count() -> None:
    _, worker, (first, second, _) = started()
    fail(worker, first, 5, blames_tool=False)
    fail(worker, first, 1)
    crm = worker.claim(first, "crm:note/a")
    worker.outcome(first, crm, "unknown", action="crm:note/a", blames_tool=True)
    assert worker.claim(second).kind == "granted"


def test_it_is_open_after_a_restart_as_it_was() -> None:
    desk, worker, (first, second, third) = started()
    fail(worker, first, 2)
    wait(worker, second)
    desk.driver.advance(10)
    worker.heartbeat(first, third)
    desk.driver.restart("dispatcher", keep_state=False)
    desk.driver.advance(0.5)
    worker.heartbeat(first, third)
    assert worker.claim(third).kind == "full"
    worker.stay(15, first, third)
    assert has_waited(desk, second) == [False]
    worker.stay(6, first, third)
    assert has_waited(desk, second) == [True]


def test_failures_count_over_a_restart() -> None:
    desk, worker, (first, second, _) = started()
    fail(worker, first)
    desk.driver.restart("dispatcher", keep_state=True)
    desk.driver.advance(0.5)
    worker.heartbeat(first, second)
    fail(worker, first)
    assert worker.claim(second).kind == "full"


def test_a_failure_that_was_undone_and_comes_again_counts_once() -> None:
    desk, worker, (first, second, _) = started()
    reply = worker.claim(first)
    with desk.held_back():
        worker.outcome(first, reply, "failed", blames_tool=True)
        desk.abort()
    assert worker.claim(second).kind == "granted"


def test_a_try_that_is_lost_gives_its_turn_to_the_next() -> None:
    desk, worker, (first, second, third) = started()
    fail(worker, first, 2)
    wait(worker, second)
    wait(worker, third)
    worker.stay(31, first)
    assert has_waited(desk, second, third) == [True, False]
    worker.end(desk.lease(second.job_id), "failed", error="PermanentError: before its call")
    assert has_waited(desk, third) == [True]


def test_jobs_that_wait_for_a_breaker_that_is_gone_go_on() -> None:
    desk, worker, (first, second, third) = started()
    fail(worker, first, 2)
    wait(worker, second)
    desk.deploy(breakers=())
    desk.driver.advance(0.5)
    worker.heartbeat(first, third)
    assert worker.claim(desk.lease(second.job_id)).kind == "granted"


def test_a_limit_and_a_breaker_of_one_tool_both_hold() -> None:
    cap = Limit("mails", "tool", "*", concurrency=1, shared=False)
    desk, worker, (first, second, third) = started(cap)
    fail(worker, first, 2)
    wait(worker, second)
    worker.stay(31, first, third)
    again = desk.lease(second.job_id)
    reply = worker.claim(again)
    worker.outcome(again, reply, "done")
    assert [worker.claim(each).kind for each in (first, third)] == ["granted", "full"]


def test_tools_that_failed_once_and_are_called_no_more_leave_nothing() -> None:
    desk, worker, (first, *_) = started()
    for number in range(20):
        action = f"email:{number}/reply"
        reply = worker.claim(first, action)
        worker.outcome(first, reply, "failed", action=action, blames_tool=True)
    worker.stay(61, first)
    for number in range(8):
        action = f"email:new{number}/reply"
        reply = worker.claim(first, action)
        worker.outcome(first, reply, "failed", action=action, blames_tool=True)
    rows = [key for key, _ in desk.driver.store("dispatcher", "parts").range(b"b", b"c")]
    assert len(rows) == 8
