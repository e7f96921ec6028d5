"""The verdict: compares the evidence with every guarantee, and with what the run had to show."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from streams.demo.verdict.deliveries import not_shown
from streams.demo.verdict.effects import Repeats, count_repeats
from streams.demo.verdict.evidence import Evidence
from streams.demo.verdict.finding import Finding
from streams.demo.verdict.guarantees import GUARANTEES, lost_events
from streams.demo.world.scenario import CAP, CAPPED_TENANT, DELAYED_TYPE
from streams.serde import job_states
from streams.serde.records import Job

STRUCK = frozenset({"ingress", "dedup", "scheduler", "dispatcher", "worker", "delivery"})
"""The stages that `--kill` must strike, each at least once, with work in flight."""


@dataclass(frozen=True)
class Verdict:
    """`shortcomings`: what the run had to show and did not; with one of them it proves nothing."""

    findings: dict[str, Finding]
    shortcomings: tuple[str, ...]
    repeats: Repeats
    lost: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """No guarantee broke, and everything that had to happen happened."""
        broken = any(finding.violations for finding in self.findings.values())
        return not broken and not self.shortcomings


def judge(evidence: Evidence) -> Verdict:
    """Check the evidence against every guarantee."""
    return Verdict(
        findings={name: check(evidence) for name, check in GUARANTEES.items()},
        shortcomings=tuple(_shortcomings(evidence)),
        repeats=count_repeats(evidence.calls, evidence.kills),
        lost=tuple(lost_events(evidence)),
    )


def _shortcomings(evidence: Evidence) -> Iterator[str]:
    yield from evidence.refused
    yield from evidence.unfinished
    yield from (f"a record that no schema knows: {what}" for what in evidence.undecodable)
    yield from _answers(evidence)
    yield from _kinds_of_job(evidence)
    yield from _cap(evidence)
    yield from not_shown(evidence)
    if evidence.kill_wanted:
        yield from _kills(evidence)


def _answers(evidence: Evidence) -> Iterator[str]:
    expected, given = evidence.scenario.deliveries, len(evidence.answers)
    if given != expected:
        yield f"{expected} deliveries, but {given} answers of 2xx"
    for answer in evidence.answers:
        if answer.status not in (200, 202):
            yield f"{answer.ticket.tenant_id}/{answer.ticket.number}: answered {answer.status}"


def _kinds_of_job(evidence: Evidence) -> Iterator[str]:
    """Poison must end in the dead letters, and nothing else may."""
    jobs = evidence.records.newest
    poisoned = {a.job_id for a in evidence.answers if a.ticket.poison}
    for job_id in sorted(map(str, poisoned)):
        job = jobs.get(job_id)
        if job is None or job.status not in job_states.IN_DEAD_LETTERS:
            yield f"{job_id}: the poison body's job is {job.status if job else 'not there'}"
    for job_id, job in jobs.items():
        if job.status in job_states.TERMINAL - {job_states.SUCCEEDED} and job_id not in poisoned:
            yield f"{job_id} of {job.tenant_id} is {job.status}: {job.last_error}"
    yield from _waits(evidence, jobs)
    succeeded = [job for job in jobs.values() if job.status == job_states.SUCCEEDED]
    if not any(job.attempts > 1 for job in succeeded):
        yield "no job failed at first and then succeeded"
    if not any(job.type == DELAYED_TYPE for job in succeeded):
        yield "the delayed job did not run"


def _waits(evidence: Evidence, jobs: dict[str, Job]) -> Iterator[str]:
    """Only a kill may have left an outcome for a person to decide."""
    struck = any(kill.stage == "worker" for kill in evidence.kills)
    for job_id, job in jobs.items():
        if job.status in job_states.FOR_A_PERSON and not struck:
            yield f"{job_id} of {job.tenant_id} needs review, though no worker was killed"


def _cap(evidence: Evidence) -> Iterator[str]:
    """The cap was not exceeded in the outside world's view, and was reached on the jobs topic."""
    calls, running = evidence.high_water[CAPPED_TENANT], _most_running(evidence)
    if calls > CAP:
        yield f"{calls} calls of {CAPPED_TENANT} at once, over its cap of {CAP}"
    if running < CAP:
        yield f"the cap of {CAPPED_TENANT} never bound: {running} jobs at once, {CAP} allowed"


def _most_running(evidence: Evidence) -> int:
    running: set[str] = set()
    most = 0
    for seen in evidence.records.jobs:
        job = seen.value
        if job.tenant_id == CAPPED_TENANT and job.status in job_states.LEASED:
            running.add(job.job_id)
            most = max(most, len(running))
        else:
            running.discard(job.job_id)
    return most


def _kills(evidence: Evidence) -> Iterator[str]:
    for stage in sorted(STRUCK - {kill.stage for kill in evidence.kills}):
        yield f"no kill of {stage} struck work in flight"
    epochs: dict[str, int] = {}
    for job in evidence.records.leased.values():
        epochs[job.job_id] = max(job.epoch, epochs.get(job.job_id, 0))
    workers = [kill for kill in evidence.kills if kill.stage == "worker"]
    if workers and not any(epochs.get(kill.job_id, 0) > kill.epoch for kill in workers):
        yield "no lease of a killed worker moved to a higher epoch"
