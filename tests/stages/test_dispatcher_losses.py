"""Runs that end with their worker: what counts, how long they wait, when a job is given up."""

from __future__ import annotations

import pytest
from support.dispatching import Desk, ScriptedWorker

from streams.serde.codec import JOB
from streams.serde.records import Lease


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def worker(desk: Desk) -> ScriptedWorker:
    return ScriptedWorker(desk)


def killed(desk: Desk, lease: Lease, name: str) -> ScriptedWorker:
    """The lease's worker says that it has it, and dies; another process takes its place."""
    ScriptedWorker(desk, desk.taker(lease.job_id)).heartbeat(lease)
    heir = ScriptedWorker(desk, name)
    heir.heartbeat()
    return heir


def test_a_lease_that_nobody_read_costs_nothing(desk: Desk) -> None:
    worker = ScriptedWorker(desk, attempts=1)
    worker.heartbeat()
    job_id = desk.event("t1")
    desk.driver.advance(31)
    worker.heartbeat()
    again, job = desk.lease(job_id), desk.job(job_id)
    assert (again.epoch, again.attempt, again.alone) == (2, 1, False)
    assert (job.status, job.lost) == ("running", 0)


def test_what_was_confirmed_is_remembered_over_a_restart(
    desk: Desk, worker: ScriptedWorker
) -> None:
    worker.heartbeat()
    read, unread = desk.event("t1"), desk.event("t2")
    worker.heartbeat(desk.lease(read), free=0)
    desk.driver.restart("dispatcher")
    desk.driver.advance(31)
    assert (desk.job(read).status, desk.job(read).lost) == ("scheduled", 1)
    assert (desk.job(unread).status, desk.job(unread).lost) == ("pending", 0)


def test_a_claim_is_remembered_over_a_restart_as_a_word_of_its_run(
    desk: Desk, worker: ScriptedWorker
) -> None:
    worker.heartbeat()
    claims, waits = desk.event("t1"), desk.event("t2")
    worker.claim(desk.lease(claims), "email:send/1")
    assert desk.job(claims).confirmed is False, "the ledger says it"
    desk.driver.restart("dispatcher")
    desk.driver.advance(31)
    assert (desk.job(claims).status, desk.job(claims).lost) == ("scheduled", 1)
    assert (desk.job(waits).status, desk.job(waits).lost) == ("pending", 0)


def test_losses_back_off_with_a_spread_and_give_the_attempt_back(desk: Desk) -> None:
    worker = ScriptedWorker(desk, "w1/b0")
    worker.heartbeat()
    ids = [desk.event(f"t{n}") for n in range(8)]
    for lost, backoff in ((1, 5), (2, 10)):
        worker = ScriptedWorker(desk, f"w1/b{lost}", slots=0)
        ScriptedWorker(desk, f"w1/b{lost - 1}").heartbeat(*map(desk.lease, ids), free=0)
        worker.heartbeat()
        jobs = [desk.job(job_id) for job_id in ids]
        assert {(job.status, job.attempts, job.lost) for job in jobs} == {("scheduled", 0, lost)}
        waits = {(job.next_retry_at or 0) - desk.driver.now for job in jobs}
        assert len(waits) == len(ids), "they do not come back together"
        assert all(backoff * 1000 <= wait <= backoff * 1250 for wait in waits)
        desk.driver.advance(backoff * 1.3)
        worker.slots = 10
        worker.heartbeat()


def test_a_job_that_kills_its_worker_runs_alone_and_is_dead(desk: Desk) -> None:
    worker = ScriptedWorker(desk, "w1/b0")
    worker.heartbeat()
    job_id = desk.event("t1")
    alone = []
    for boot in range(1, 5):
        alone.append(desk.lease(job_id).alone)
        worker = killed(desk, desk.lease(job_id), f"w1/b{boot}")
        while desk.job(job_id).status == "scheduled":
            worker.stay(1)
    assert alone == [False, False, True, True]
    job = desk.job(job_id)
    assert (job.status, job.end_reason) == ("dead", "worker_lost")
    assert (job.attempts, job.lost, job.lost_alone) == (0, 4, 2)
    assert [letter.reason for letter in desk.dead_letters()] == ["worker_lost"]
    assert [(run.attempt, run.kind, run.worker_id) for run in job.history] == [
        (1, "lost", f"w1/b{boot}") for boot in range(4)
    ]


def without_kafka(desk: Desk, worker: ScriptedWorker) -> None:
    """Kafka is away for so long that the worker ends its runs; then the worker is heard again."""
    desk.driver.unread.add("link")
    desk.driver.advance(40)
    desk.driver.unread.clear()
    worker.stay(35)


def test_a_run_that_its_worker_ended_without_kafka_is_a_failed_attempt_and_no_loss(
    desk: Desk, worker: ScriptedWorker
) -> None:
    """All jobs that ran became suspects after the second outage, though no process had ended."""
    worker.heartbeat()
    ids = [desk.event(f"t{n}") for n in range(3)]
    worker.heartbeat(*map(desk.lease, ids))
    without_kafka(desk, worker)
    for job in map(desk.job, ids):
        assert (job.status, job.attempts, job.lost) == ("scheduled", 1, 0)
        assert [(run.attempt, run.kind) for run in job.history] == [(1, "failed")]
        assert "went on without the run" in (job.last_error or "")
    worker.stay(15)
    assert {(desk.lease(each).attempt, desk.lease(each).alone) for each in ids} == {(2, False)}


def test_a_job_whose_runs_hold_up_the_heartbeats_does_not_run_for_ever(
    desk: Desk, worker: ScriptedWorker
) -> None:
    worker.heartbeat()
    job_id = desk.event("t1")
    for _ in range(3):
        worker.heartbeat(desk.lease(job_id))
        without_kafka(desk, worker)
        while desk.job(job_id).status == "scheduled":
            worker.stay(5)
    job = desk.job(job_id)
    assert (job.status, job.end_reason, job.attempts) == ("dead", "attempts_exhausted", 3)


def test_an_only_attempt_that_had_begun_is_used_up_without_kafka(desk: Desk) -> None:
    worker = ScriptedWorker(desk, attempts=1)
    worker.heartbeat()
    begun, unread = desk.event("t1"), desk.event("t2")
    worker.heartbeat(desk.lease(begun))
    without_kafka(desk, worker)
    assert [letter.reason for letter in desk.dead_letters()] == ["attempts_exhausted"]
    assert desk.job(begun).status == "dead"
    assert desk.lease(unread).attempt == 1


def test_a_run_that_was_listed_to_the_end_is_lost_with_its_process(
    desk: Desk, worker: ScriptedWorker
) -> None:
    worker.heartbeat()
    job_id = desk.event("t1")
    lease = desk.lease(job_id)
    worker.heartbeat(lease)
    worker.heartbeat()
    worker.heartbeat(lease)
    desk.driver.advance(31)
    assert (desk.job(job_id).attempts, desk.job(job_id).lost) == (0, 1)


def test_its_neighbours_are_lost_with_it_but_go_on(desk: Desk) -> None:
    """Nine jobs beside a killer used to be dead with it."""
    ScriptedWorker(desk, "w1/b0").heartbeat()
    killer, *others = (desk.event(f"t{n}") for n in range(10))
    for boot in range(1, 3):
        held = [desk.lease(job_id) for job_id in (killer, *others)]
        ScriptedWorker(desk, f"w1/b{boot - 1}").heartbeat(*held)
        ScriptedWorker(desk, f"w1/b{boot}").stay(15)
    assert all(desk.lease(job_id).alone for job_id in (killer, *others))
    for job_id in others:
        ScriptedWorker(desk, "w1/b2").end(desk.lease(job_id), "succeeded")
        assert desk.job(job_id).status == "succeeded"


def test_a_job_whose_leases_are_never_confirmed_is_a_suspect_and_confirmed_then(
    desk: Desk,
) -> None:
    """It may kill its worker before that says a word."""
    ScriptedWorker(desk, "w1/b0").heartbeat()
    job_id = desk.event("t1")
    for boot in range(1, 4):
        assert not desk.lease(job_id).alone
        ScriptedWorker(desk, f"w1/b{boot}").heartbeat()
    lease, job = desk.lease(job_id), desk.job(job_id)
    assert (lease.alone, lease.attempt, job.lost) == (True, 1, 0)
    killed(desk, lease, "w1/b4")
    assert (desk.job(job_id).lost, desk.job(job_id).lost_alone) == (1, 1)


def test_the_leases_of_a_process_that_ended_run_out(desk: Desk) -> None:
    leaving = ScriptedWorker(desk, "w1/b1", attempts=1, slots=20)
    leaving.heartbeat()
    unread, read = desk.event("t1"), desk.event("t2")
    leaving.heartbeat(desk.lease(read))
    other = ScriptedWorker(desk, "w2/b1", attempts=1)
    other.heartbeat()
    leaving.leave()
    assert desk.taker(desk.event("t3")) == "w2/b1", "it is sent nothing more"
    other.stay(31)
    assert (desk.taker(unread), desk.lease(unread).attempt) == ("w2/b1", 1)
    assert desk.job(read).end_reason == "worker_lost", "its only attempt had begun"


def test_the_history_keeps_the_newest_ten_runs_that_did_not_succeed(desk: Desk) -> None:
    worker = ScriptedWorker(desk, attempts=99, backoff=())
    worker.heartbeat()
    job_id = desk.event("t1")
    worker.end(desk.lease(job_id), "released", error="shut down")
    worker.heartbeat()
    worker.end(desk.lease(job_id), "retry", error="TimeoutError: ran past its 300 s")
    for n in range(2, 12):
        worker.end(desk.lease(job_id), "retry", error=f"TransientError: {n} " + "x" * 500)
    history = desk.job(job_id).history
    assert [run.attempt for run in history] == list(range(2, 12))
    assert {run.kind for run in history} == {"failed"}
    assert {len(run.error or "") for run in history} == {300}
    worker.end(desk.lease(job_id), "failed", error="PermanentError: no")
    assert desk.job(job_id).history[-1].error == "PermanentError: no"


def test_the_history_keeps_the_newest_traceback_whatever_ends_the_job(
    desk: Desk, worker: ScriptedWorker
) -> None:
    worker.heartbeat()
    job_id = desk.event("t1")
    worker.end(desk.lease(job_id), "retry", error="KeyError: 'a'", after=0, traceback="line 1")
    worker.end(
        desk.lease(job_id), "retry", error="KeyError: 'b'", after=0, traceback="2" * 9_000 + "!"
    )
    kept = [run.traceback for run in desk.job(job_id).history]
    assert kept == [None, "2" * 4_099 + "!"]
    worker.end(desk.lease(job_id), "failed", error="PermanentError: no", traceback="line 3")
    dead = desk.job(job_id)
    assert [run.traceback for run in dead.history] == [None, None, "line 3"]
    (letter,) = desk.dead_letters()
    assert JOB.decode(letter.value or b"").history == dead.history


def test_a_timeout_and_a_release_stand_in_the_history(desk: Desk, worker: ScriptedWorker) -> None:
    worker.heartbeat()
    job_id = desk.event("t1")
    worker.end(desk.lease(job_id), "released", error="shut down")
    worker.end(desk.lease(job_id), "retry", error="TimeoutError: ran past its 300 s")
    kinds = [(run.attempt, run.kind, run.worker_id) for run in desk.job(job_id).history]
    assert kinds == [(1, "released", "w1/b1"), (1, "timeout", "w1/b1")]


def test_thousands_of_leases_are_taken_back_in_parts(desk: Desk) -> None:
    worker = ScriptedWorker(desk, slots=1_000)
    worker.heartbeat()
    with desk.driver.together():
        for n in range(650):
            desk.event(f"t{n}")
    desk.driver.advance(0.2)  # leases go out in parts, too
    assert len(desk.leases()) == 650
    before = len(desk.driver.output("jobs"))
    ScriptedWorker(desk, "w1/b2").heartbeat(free=0)
    parts = []
    while (written := len(desk.driver.output("jobs"))) > before:
        parts.append(written - before)
        before = written
        desk.driver.advance(0.1)
    assert sum(parts) == 650
    assert max(parts) == 200


def test_expired_leases_are_taken_back_in_parts(desk: Desk) -> None:
    worker = ScriptedWorker(desk, slots=1_000)
    worker.heartbeat()
    with desk.driver.together():
        for n in range(650):
            desk.event(f"t{n}")
    desk.driver.advance(29.9)
    before, parts = len(desk.driver.output("jobs")), []
    for _ in range(10):
        desk.driver.advance(0.1)
        written = len(desk.driver.output("jobs"))
        parts.append(written - before)
        before = written
    assert sum(parts) == 650
    assert max(parts) == 200


def test_a_lease_that_is_over_takes_nothing_from_a_newer_one_of_its_job(desk: Desk) -> None:
    """The newer one was granted while the old one still stood in line to be taken back."""
    worker = ScriptedWorker(desk, slots=1_000)
    worker.heartbeat()
    with desk.driver.together():
        for n in range(250):
            desk.event(f"t{n}")
    job_id = desk.event("r1", type_="ticket.refund")
    first = desk.lease(job_id)
    other = ScriptedWorker(desk, "w2/b1", types=("refund",), slots=1)
    with desk.held_back():
        ScriptedWorker(desk, "w1/b2").heartbeat(free=0)
        worker.decline(first)
        other.heartbeat()
    assert desk.lease(job_id).epoch == 2
    other.heartbeat(desk.lease(job_id), free=0)
    desk.driver.advance(31)
    assert desk.job(job_id).lost == 1, "the newer lease was watched until its end"


def test_a_loss_ends_a_cancelled_job_with_the_reason_that_was_given(
    desk: Desk, worker: ScriptedWorker
) -> None:
    worker.heartbeat()
    ids = [desk.event(f"t{n}") for n in range(3)]
    for job_id in ids:
        desk.cancel(job_id)
    worker.decline(desk.lease(ids[0]))
    worker.end(desk.lease(ids[1]), "retry", error="CancelledError: ")
    ScriptedWorker(desk, "w1/b2").heartbeat()
    ends = {(desk.job(job_id).status, desk.job(job_id).last_error) for job_id in ids}
    assert ends == {("cancelled", "Cancelled: not needed")}
    assert desk.job(ids[2]).cancel_reason == "not needed"


def suspected(desk: Desk) -> tuple[str, ScriptedWorker]:
    """A job that was lost twice, and the worker that it is leased to alone now."""
    ScriptedWorker(desk, "w1/b0").heartbeat()
    suspect = desk.event("t1")
    for boot in range(1, 3):
        worker = killed(desk, desk.lease(suspect), f"w1/b{boot}")
        while desk.job(suspect).status == "scheduled":
            worker.stay(1)
    assert desk.lease(suspect).alone
    return suspect, worker


@pytest.mark.parametrize("restarted", [False, True])
def test_a_suspect_that_has_not_begun_is_not_lost(desk: Desk, restarted: bool) -> None:
    """It waits for runs of other partitions, which this one's heartbeats do not list."""
    suspect, worker = suspected(desk)
    for _ in range(3):
        worker.heartbeat(desk.lease(suspect), waits=True)
        if restarted:
            desk.driver.restart("dispatcher")
            desk.driver.advance(0.5)
        worker = ScriptedWorker(desk, worker.name + "x")
        worker.heartbeat()
        job = desk.job(suspect)
        assert (job.status, job.lost, job.lost_alone) == ("running", 2, 0)
        assert desk.taker(suspect) == worker.name, "it goes elsewhere at once"
        assert desk.lease(suspect).alone


def test_the_lease_of_a_suspect_that_waits_is_kept(desk: Desk) -> None:
    suspect, worker = suspected(desk)
    first = desk.lease(suspect)
    for _ in range(20):
        worker.heartbeat(first, waits=True)
        desk.driver.advance(5)
    assert desk.lease(suspect) == first


def test_a_suspect_that_runs_is_lost_alone_whatever_else_is_listed(desk: Desk) -> None:
    """A run that ended is listed until its end is acknowledged."""
    suspect, worker = suspected(desk)
    ended = desk.event("t2")
    worker.heartbeat(desk.lease(suspect), desk.lease(ended), waits=True)
    worker.heartbeat(desk.lease(suspect), desk.lease(ended), waits=False)
    ScriptedWorker(desk, "w1/b3").heartbeat()
    assert (desk.job(suspect).lost, desk.job(suspect).lost_alone) == (3, 1)


def test_a_suspect_that_is_given_back_waits_ever_longer(desk: Desk) -> None:
    """A worker that cannot run it alone was sent it again at once, for ever."""
    suspect, worker = suspected(desk)
    for backoff in (5, 10, 20, 40, 80, 160, 300, 300):
        worker.end(desk.lease(suspect), "released", error="runs fill the worker")
        job = desk.job(suspect)
        assert (job.status, job.attempts, job.lost, job.lost_alone) == ("scheduled", 0, 2, 0)
        wait = (job.next_retry_at or 0) - desk.driver.now
        assert backoff * 1000 <= wait <= backoff * 1250
        while desk.job(suspect).status == "scheduled":
            worker.stay(5)
        assert desk.lease(suspect).alone
    worker.end(desk.lease(suspect), "succeeded")


def test_a_job_that_is_given_back_again_and_again_runs_alone(
    desk: Desk, worker: ScriptedWorker
) -> None:
    """Its handler may be what shuts its workers down, with all their other runs."""
    worker.heartbeat()
    job_id = desk.event("t1")
    for _ in range(5):
        assert not desk.lease(job_id).alone, "a deployment may overtake a run several times"
        worker.end(desk.lease(job_id), "released", error="the worker shut down")
        worker.heartbeat()
    assert (desk.job(job_id).status, desk.job(job_id).attempts) == ("scheduled", 0)
    while desk.job(job_id).status == "scheduled":
        worker.stay(5)
    assert desk.lease(job_id).alone
    worker.end(desk.lease(job_id), "retry", error="KeyError: 'a'", after=0)
    assert not desk.lease(job_id).alone, "this run's end was its own"


def test_a_job_that_is_given_back_goes_to_another_worker(desk: Desk) -> None:
    suspect, worker = suspected(desk)
    other = ScriptedWorker(desk, "w2/b1", slots=1)
    worker.end(desk.lease(suspect), "released", error="runs fill the worker")
    other.heartbeat()
    while desk.job(suspect).status == "scheduled":
        worker.stay(1)
    assert desk.taker(suspect) == "w2/b1", "though the first has more credits"


def test_a_worker_that_gave_a_job_back_gets_it_again_if_there_is_no_other(desk: Desk) -> None:
    worker = ScriptedWorker(desk)
    worker.heartbeat()
    job_id = desk.event("t1")
    worker.end(desk.lease(job_id), "released", error="shut down")
    assert (desk.job(job_id).status, desk.lease(job_id).epoch) == ("running", 2)


def test_leases_of_a_process_that_was_replaced_are_taken_back_after_an_abort_as_well(
    desk: Desk,
) -> None:
    """They waited for their terms to end, a part of them."""
    worker = ScriptedWorker(desk, slots=1_000)
    worker.heartbeat()
    with desk.driver.together():
        for n in range(650):
            desk.event(f"t{n}")
    desk.driver.advance(0.2)
    ScriptedWorker(desk, "w1/b2").heartbeat(free=0)
    desk.abort()
    desk.driver.advance(1)
    assert {desk.job(lease.job_id).status for lease in desk.leases()} == {"pending"}


@pytest.mark.long
def test_a_silence_that_is_over_delays_no_later_loss(desk: Desk, worker: ScriptedWorker) -> None:
    """Heartbeats were read before the broker told how far its log reaches."""
    worker.heartbeat()
    job_id = desk.event("t1")
    lease = desk.lease(job_id)
    worker.heartbeat(lease)
    desk.driver.unread.add("link")
    desk.driver.advance(40)
    worker.heartbeat(lease)
    desk.driver.advance(1)
    desk.driver.unread.clear()
    worker.stay(3_600, lease)
    desk.driver.advance(31)
    assert desk.job(job_id).lost == 1
