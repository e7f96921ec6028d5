"""The figures of a run: what `--json` prints and the table shows."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from streams.demo.verdict.deliveries import repeats
from streams.demo.verdict.effects import count_repeats
from streams.demo.verdict.evidence import Evidence
from streams.demo.verdict.judge import Verdict
from streams.demo.world.recorder import Call
from streams.serde import delivery_states, job_states


def figures(
    evidence: Evidence, verdict: Verdict, seconds: float, before: dict[str, Any] | None
) -> dict[str, Any]:
    """The object of `tidegate demo --json`; times in milliseconds but for `seconds`.

    `accepted` and `duplicates` are answers of 202 and 200. `ack` is from sending a request to
    its answer; `start` from an event's first answer to its handler's first line.
    `queue` is the part of `start` for which the job was ready and waited for a free slot or its
    cap; `pipeline` is the rest.
    """
    jobs = evidence.records.newest.values()
    rows = {s.value.delivery_id: s.value for s in evidence.records.deliveries}.values()
    acks = [1000 * (answer.answered_at - answer.sent_at) for answer in evidence.answers]
    starts = _start_latencies(evidence)
    queued = _queue_latencies(evidence)
    waits = {job_id: min(queued.get(job_id, 0.0), start) for job_id, start in starts.items()}
    return {
        "events": len(evidence.scenario.tickets),
        "deliveries": evidence.scenario.deliveries,
        "accepted": sum(answer.status == 202 for answer in evidence.answers),
        "duplicates": sum(answer.status == 200 for answer in evidence.answers),
        "jobs": len(jobs),
        "jobs_succeeded": sum(job.status == job_states.SUCCEEDED for job in jobs),
        "effects_executed": verdict.repeats.executed,
        "duplicate_effects": len(verdict.repeats.duplicates),
        "same_key_repeats": verdict.repeats.same_key,
        "lost_events": len(verdict.lost),
        "cross_tenant_reads": len(verdict.findings["G3"].violations),
        "outgoing": len(rows),
        "outgoing_delivered": sum(row.status == delivery_states.DELIVERED for row in rows),
        "outgoing_parked": sum(row.status in delivery_states.RECOVERABLE for row in rows),
        "outgoing_attempts": len(evidence.records.attempts),
        "outgoing_repeats": repeats(evidence.hooks),
        "kills": len(evidence.kills),
        "ack_p50_ms": percentile(acks, 50),
        "ack_p99_ms": percentile(acks, 99),
        "start_p50_ms": percentile([*starts.values()], 50),
        "start_p99_ms": percentile([*starts.values()], 99),
        "queue_p50_ms": percentile([*waits.values()], 50),
        "pipeline_p50_ms": percentile([start - waits[job] for job, start in starts.items()], 50),
        "seconds": round(seconds, 1),
        "before": before,
        "guarantees": {
            name: {"checked": found.checked, "violations": len(found.violations)}
            for name, found in verdict.findings.items()
        },
        "ok": verdict.ok,
    }


def before_figures(deliveries: int, calls: Sequence[Call], seconds: float) -> dict[str, Any]:
    """The figures of the naive handler for the same deliveries."""
    repeats = count_repeats(calls, ())
    return {
        "deliveries": deliveries,
        "effects_executed": repeats.executed,
        "duplicate_effects": len(repeats.duplicates),
        "seconds": round(seconds, 1),
    }


def percentile(values: Sequence[float], percent: int) -> float | None:
    """A percentile, rounded to a tenth; None without values."""
    if len(values) < 2:
        return round(values[0], 1) if values else None
    return round(statistics.quantiles(values, n=100, method="inclusive")[percent - 1], 1)


def _start_latencies(evidence: Evidence) -> dict[str, float]:
    """Milliseconds from the first answer that names a job to its handler's first line, by job."""
    answered: dict[str, float] = {}
    for answer in evidence.answers:
        if answer.job_id is not None:
            at = answered.get(answer.job_id, answer.answered_at)
            answered[answer.job_id] = min(at, answer.answered_at)
    started: dict[str, float] = {}
    for start in evidence.starts:
        job_id = start.caller.job_id
        started[job_id] = min(started.get(job_id, start.at), start.at)
    return {
        job_id: max(0.0, 1000 * (started[job_id] - at))
        for job_id, at in answered.items()
        if job_id in started
    }


def _queue_latencies(evidence: Evidence) -> dict[str, float]:
    """Milliseconds from a job's first record as pending to its first as running, by job.

    A job that finds a free slot at once has no record as pending: its transaction leases it.
    """
    ready: dict[str, int] = {}
    leased: dict[str, int] = {}
    for seen in evidence.records.jobs:
        first = {job_states.PENDING: ready, job_states.RUNNING: leased}.get(seen.value.status)
        if first is not None:
            first.setdefault(seen.value.job_id, seen.value.updated_at)
    return {
        job_id: float(max(0, leased[job_id] - at))
        for job_id, at in ready.items()
        if job_id in leased
    }
