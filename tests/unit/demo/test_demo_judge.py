"""The judge is not fooled: an honest run passes, and every injected fault is named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.honest_run import T0, HonestRun, call, job_id, kill, seen

from streams.demo.verdict.effects import count_repeats
from streams.demo.verdict.fold import StoreFinding
from streams.demo.verdict.judge import STRUCK, Verdict, judge
from streams.demo.world.scenario import CAP, CAPPED_TENANT, TENANTS


@pytest.fixture
def run() -> HonestRun:
    return HonestRun()


def broken(verdict: Verdict) -> set[str]:
    """The guarantees that a verdict says were broken."""
    return {name for name, found in verdict.findings.items() if found.violations}


def test_an_honest_run_is_ok(run: HonestRun) -> None:
    verdict = judge(run.evidence())
    assert broken(verdict) == set()
    assert verdict.shortcomings == ()
    assert verdict.ok


def test_what_was_not_exercised_has_checked_nothing(run: HonestRun) -> None:
    findings = judge(run.evidence()).findings
    assert findings["G8"].checked == 0
    assert all(findings[name].checked > 0 for name in findings if name != "G8")


class TestG1:
    def test_an_event_twice_after_dedup(self, run: HonestRun) -> None:
        run.events.append(run.events[0])
        assert "G1" in broken(judge(run.evidence()))

    def test_an_answered_event_that_is_not_kept(self, run: HonestRun) -> None:
        run.received.pop(3)
        assert broken(judge(run.evidence())) == {"G1"}

    def test_an_event_without_a_job_is_lost(self, run: HonestRun) -> None:
        id_ = job_id(run.scenario.tickets[4])
        run.jobs = [s for s in run.jobs if s.value.job_id != id_]
        verdict = judge(run.evidence())
        assert "G1" in broken(verdict)
        assert len(verdict.lost) == 1

    def test_a_job_that_ended_well_without_its_effect_is_lost(self, run: HonestRun) -> None:
        run.calls.pop()
        verdict = judge(run.evidence())
        assert broken(verdict) == {"G1"}
        assert len(verdict.lost) == 1

    def test_a_job_that_no_event_explains(self, run: HonestRun) -> None:
        stray = replace(run.jobs[0].value, job_id="job_stray")
        run.jobs.append(seen("jobs", stray))
        assert "G1" in broken(judge(run.evidence()))

    def test_two_job_ids_for_one_event(self, run: HonestRun) -> None:
        run.answers[1] = replace(run.answers[1], job_id=run.answers[2].job_id)
        assert broken(judge(run.evidence())) == {"G1"}

    def test_one_idempotency_key_and_two_jobs(self, run: HonestRun) -> None:
        run.submitted[1] = replace(run.submitted[1], job_id=run.answers[0].job_id or "")
        assert broken(judge(run.evidence())) == {"G1", "G4", "G7"}


class TestG2:
    def test_a_second_call_under_another_key(self, run: HonestRun) -> None:
        run.add_call(call(run.ticket(refund=False), key="another", began_at=T0 + 5))
        verdict = judge(run.evidence())
        assert broken(verdict) == {"G2"}
        assert len(verdict.repeats.duplicates) == 1

    def test_a_second_call_under_the_same_key_without_a_kill(self, run: HonestRun) -> None:
        run.add_call(call(run.ticket(refund=False), began_at=T0 + 5))
        verdict = judge(run.evidence())
        assert broken(verdict) == {"G2"}
        assert verdict.repeats.same_key == 0

    def test_a_second_call_that_a_kill_in_flight_explains(self, run: HonestRun) -> None:
        run.kills.append(kill())
        run.add_call(call(run.ticket(refund=False), began_at=T0 + 5))
        verdict = judge(run.evidence())
        assert verdict.ok
        assert verdict.repeats.same_key == 1

    @pytest.mark.parametrize(
        "wrong", [{"pid": 12}, {"at": T0 + 0.5}, {"at": T0 + 4.0}, {"at": T0 + 6.0}]
    )
    def test_a_kill_of_another_process_or_time_explains_nothing(
        self, run: HonestRun, wrong: dict[str, Any]
    ) -> None:
        run.kills.append(kill(**wrong))
        run.add_call(call(run.ticket(refund=False), began_at=T0 + 5))
        assert broken(judge(run.evidence())) == {"G2"}

    def test_a_request_on_its_way_when_its_worker_dies_began_after_the_kill(
        self, run: HonestRun
    ) -> None:
        run.kills.append(kill(at=T0 + 1.005))
        run.add_call(call(run.ticket(refund=False), began_at=T0 + 5))
        assert judge(run.evidence()).ok

    def test_a_refund_twice_even_when_a_kill_struck_it(self, run: HonestRun) -> None:
        run.kills.append(kill())
        run.add_call(call(run.ticket(refund=True), "payment:refund", began_at=T0 + 5))
        assert broken(judge(run.evidence())) == {"G2"}

    def test_a_call_that_the_ledger_does_not_know(self, run: HonestRun) -> None:
        run.ledger.pop()
        assert broken(judge(run.evidence())) == {"G2"}

    def test_equal_numbers_of_two_tenants_are_two_effects(self, run: HonestRun) -> None:
        repeats = count_repeats(run.calls, ())
        assert repeats.effects == len(run.calls)


class TestG3:
    def test_a_call_with_another_tenants_text(self, run: HonestRun) -> None:
        run.calls[0] = replace(run.calls[0], text=run.scenario.markers[TENANTS[1]])
        assert broken(judge(run.evidence())) == {"G3"}

    def test_an_answer_with_another_tenants_text(self, run: HonestRun) -> None:
        run.listed[0] = replace(run.listed[0], text=run.scenario.markers[TENANTS[1]])
        assert broken(judge(run.evidence())) == {"G3"}

    def test_a_listing_with_another_tenants_job(self, run: HonestRun) -> None:
        run.listed[0] = replace(run.listed[0], asked_for=TENANTS[1])
        assert broken(judge(run.evidence())) == {"G3"}

    def test_an_event_kept_for_another_tenant(self, run: HonestRun) -> None:
        other = replace(run.received[0].value, tenant_id=TENANTS[2])
        run.received[0] = seen("events.received", other)
        assert broken(judge(run.evidence())) == {"G3"}


class TestG4:
    def test_a_timer_that_fired_early(self, run: HonestRun) -> None:
        run.commands[0] = replace(run.commands[0], at=run.commands[0].at - 0.5)
        assert broken(judge(run.evidence())) == {"G4"}

    def test_a_timer_that_fired_twice(self, run: HonestRun) -> None:
        run.commands.append(run.commands[0])
        assert broken(judge(run.evidence())) == {"G4"}

    def test_a_timer_that_never_fired(self, run: HonestRun) -> None:
        run.commands.pop()
        assert broken(judge(run.evidence())) == {"G4"}

    def test_a_retry_that_began_early(self, run: HonestRun) -> None:
        index = next(i for i, s in enumerate(run.starts) if s.caller.attempt == 2)
        run.starts[index] = replace(run.starts[index], at=T0 + 1.5)
        assert broken(judge(run.evidence())) == {"G4"}

    def test_an_early_retry_whose_attempt_was_given_back(self, run: HonestRun) -> None:
        index = next(i for i, s in enumerate(run.starts) if s.caller.attempt == 2)
        again = replace(run.starts[index].caller, attempt=1)
        run.starts[index] = replace(run.starts[index], caller=again, at=T0 + 1.5)
        assert broken(judge(run.evidence())) == {"G4"}

    def test_a_delayed_job_that_began_early(self, run: HonestRun) -> None:
        run.starts[-1] = replace(run.starts[-1], at=T0 + 7.9)
        assert broken(judge(run.evidence())) == {"G4"}


class TestG5:
    def test_a_job_that_did_not_end(self, run: HonestRun) -> None:
        run.change_job(job_id(run.scenario.tickets[0]), status="running")
        assert "G5" in broken(judge(run.evidence()))

    def test_a_dead_job_without_a_dead_letter(self, run: HonestRun) -> None:
        run.dead.clear()
        assert broken(judge(run.evidence())) == {"G5"}

    def test_a_job_that_http_does_not_show(self, run: HonestRun) -> None:
        run.listed.pop()
        assert broken(judge(run.evidence())) == {"G5"}


class TestG6:
    def test_an_edited_store(self, run: HonestRun) -> None:
        run.stores.append(StoreFinding("seen", "dedup-0/seen/1", 9, ("b'key'",), True))
        assert broken(judge(run.evidence())) == {"G6"}

    def test_a_store_that_no_process_brought_up_to_date(self, run: HonestRun) -> None:
        run.stores.append(StoreFinding("seen", "dedup-0/seen/1", 9, (), False))
        assert broken(judge(run.evidence())) == {"G6"}

    def test_one_process_up_to_date_is_enough(self, run: HonestRun) -> None:
        run.stores.append(StoreFinding("seen", "dedup-0/seen/1", 9, (), False))
        run.stores.append(StoreFinding("seen", "dedup-1/seen/1", 9, (), True))
        assert judge(run.evidence()).ok


class TestG8:
    def test_a_kill_without_recovery(self, run: HonestRun) -> None:
        run.kills.append(kill("dedup", recovered_after=None))
        verdict = judge(run.evidence())
        assert broken(verdict) == {"G8"}
        assert verdict.findings["G8"].checked == 1

    def test_a_recovery_that_took_too_long(self, run: HonestRun) -> None:
        run.kills.append(kill("dedup", recovered_after=121.0))
        assert broken(judge(run.evidence())) == {"G8"}


class TestWhatTheRunMustShow:
    def test_a_stage_that_was_not_struck(self, run: HonestRun) -> None:
        run.kill_wanted = True
        run.kills = [kill(stage) for stage in STRUCK - {"scheduler"}]
        run.lease("job_struck", 2)
        verdict = judge(run.evidence())
        assert verdict.shortcomings == ("no kill of scheduler struck work in flight",)
        assert not verdict.ok

    def test_all_stages_struck(self, run: HonestRun) -> None:
        run.kill_wanted = True
        job_id = run.jobs[0].value.job_id
        run.kills = [
            replace(each, job_id=job_id) if each.stage == "worker" else each
            for each in map(kill, STRUCK)
        ]
        run.lease(job_id, 2)
        assert judge(run.evidence()).ok

    def test_a_lease_that_did_not_move(self, run: HonestRun) -> None:
        run.kill_wanted = True
        run.kills = [kill(stage) for stage in STRUCK]
        run.lease("job_struck", 1)
        run.lease("job_other", 2)
        (shortcoming,) = judge(run.evidence()).shortcomings
        assert "higher epoch" in shortcoming

    def test_a_cap_passed(self, run: HonestRun) -> None:
        run.high_water[CAPPED_TENANT] = CAP + 1
        (shortcoming,) = judge(run.evidence()).shortcomings
        assert "over its cap" in shortcoming

    def test_a_cap_never_reached(self, run: HonestRun) -> None:
        run.jobs.pop(0)
        (shortcoming,) = judge(run.evidence()).shortcomings
        assert "never bound" in shortcoming

    def test_a_delivery_that_was_never_taken(self, run: HonestRun) -> None:
        run.answers.pop()
        assert not judge(run.evidence()).ok

    def test_a_healthy_ticket_in_the_dead_letters(self, run: HonestRun) -> None:
        run.change_job(job_id(run.ticket(poison=False)), status="failed")
        assert not judge(run.evidence()).ok

    def test_a_poison_body_that_succeeded(self, run: HonestRun) -> None:
        run.change_job(job_id(run.ticket(poison=True)), status="succeeded")
        assert not judge(run.evidence()).ok

    def test_a_review_that_no_killed_worker_explains(self, run: HonestRun) -> None:
        run.change_job(job_id(run.ticket(poison=False)), status="needs_review")
        assert not judge(run.evidence()).ok
