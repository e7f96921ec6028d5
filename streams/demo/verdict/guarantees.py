"""One check for each guarantee: from evidence to how much was checked and was violated."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator

from streams.demo.run.kill import RECOVERY_SECONDS
from streams.demo.verdict.deliveries import deliveries_end
from streams.demo.verdict.effects import by_effect, count_repeats
from streams.demo.verdict.evidence import Evidence
from streams.demo.verdict.finding import Finding
from streams.demo.world.scenario import SOURCE
from streams.serde.codec import COMMAND
from streams.serde.job_states import IN_DEAD_LETTERS, SUCCEEDED, TERMINAL, VISIBLY_WAITING
from streams.serde.records import Wake

_CLOCK_GRAIN = 0.001
"""Kafka's timestamps are whole milliseconds."""


def one_job_per_event(evidence: Evidence) -> Finding:
    """G1: each delivery answered 2xx is on the log, once after dedup, and has exactly one job."""
    found = Finding()
    received = {seen.value.event_id for seen in evidence.records.received}
    promised: dict[tuple[str, str, str], set[str | None]] = defaultdict(set)
    for answer in evidence.answers:
        key = (answer.ticket.tenant_id, SOURCE, answer.ticket.vendor_event_id)
        promised[key].add(answer.job_id)
        found.check(answer.event_id in received, f"{'/'.join(key)}: answered 2xx, but not kept")
    unique = Counter(
        (seen.value.tenant_id, seen.value.source, seen.value.dedup_key)
        for seen in evidence.records.events
    )
    jobs = evidence.records.newest
    for key, ids in promised.items():
        name = "/".join(key)
        found.check(unique[key] == 1, f"{name}: {unique[key]} times on events, not once")
        found.check(len(ids) == 1, f"{name}: answered with several job ids {sorted(map(str, ids))}")
        found.check(bool(ids & jobs.keys()), f"{name}: has no job, though {ids} was promised")
    _no_other_jobs(evidence, {job_id for ids in promised.values() for job_id in ids}, found)
    _nothing_lost(evidence, found)
    return found


def _no_other_jobs(evidence: Evidence, promised: set[str | None], found: Finding) -> None:
    jobs = evidence.records.newest
    submitted = {each.job_id for each in evidence.submitted}
    for job_id, job in jobs.items():
        whose = f"{job.tenant_id}/{job.event.dedup_key if job.event else 'submitted'}"
        explained = job_id in promised | submitted
        found.check(explained, f"{job_id} ({whose}): a job that no event explains")
        found.check(job.incarnation == 1, f"{job_id}: incarnation {job.incarnation} in the window")
    for job_id in submitted:
        found.check(job_id in jobs, f"{job_id}: submitted, but there is no job")
    found.check(len(submitted) <= 1, "two submissions under one Idempotency-Key gave two jobs")


def lost_events(evidence: Evidence) -> list[str]:
    """Accepted events without a result: no job, no end, or an end without its effects."""
    jobs, done = evidence.records.newest, set(by_effect(evidence.calls))
    lost = set()
    for answer in evidence.answers:
        ticket, job = answer.ticket, jobs.get(answer.job_id or "")
        effects = {(ticket.tenant_id, ticket.external_id, action) for action in ticket.actions}
        visible = job is not None and job.status in TERMINAL | VISIBLY_WAITING
        if not visible or (job and job.status == SUCCEEDED and not effects <= done):
            lost.add(f"{ticket.tenant_id}/{ticket.external_id}: accepted, but nothing came of it")
    return sorted(lost)


def _nothing_lost(evidence: Evidence, found: Finding) -> None:
    lost = lost_events(evidence)
    found.checked += len({(a.ticket.tenant_id, a.ticket.number) for a in evidence.answers})
    found.violations.extend(lost)


def effects_once(evidence: Evidence) -> Finding:
    """G2: no side effect is called too often, and each is in the ledger under its key."""
    repeats = count_repeats(evidence.calls, evidence.kills)
    found = Finding(repeats.calls, list(repeats.duplicates))
    ledger = {
        (seen.value.tenant_id, seen.value.idempotency_key) for seen in evidence.records.ledger
    }
    for call in evidence.calls:
        known = (call.caller.tenant_id, call.key or "") in ledger
        found.check(
            known,
            f"{call.caller.tenant_id}/{call.external_id}/{call.action}: "
            f"called under {call.key}, which the ledger does not know",
        )
    return found


def tenants_apart(evidence: Evidence) -> Finding:
    """G3: nothing of one tenant appears under another."""
    found = Finding()
    markers = evidence.scenario.markers
    for tenant, text, what in _shown(evidence):
        others = [t for t, marker in markers.items() if t != tenant and marker in text]
        found.check(not others, f"{what} of {tenant} shows what is {', '.join(others)}'s")
    for item in evidence.listed:
        found.check(
            item.tenant_id == item.asked_for,
            f"{item.job_id} of {item.tenant_id} is listed for {item.asked_for}",
        )
    routes = {a.event_id: a.ticket.tenant_id for a in evidence.answers if a.status == 202}
    for seen in evidence.records.received:
        route = routes.get(seen.value.event_id, seen.value.tenant_id)
        found.check(
            seen.value.tenant_id == route,
            f"{seen.value.event_id} came in for {route} and is kept for {seen.value.tenant_id}",
        )
    return found


def _shown(evidence: Evidence) -> Iterator[tuple[str, str, str]]:
    """Tenant, text and name of everything that was shown under a tenant."""
    for call in evidence.calls:
        yield call.caller.tenant_id, call.text, f"{call.action} {call.external_id}"
    for tenant, text in evidence.texts:
        yield tenant, text, "draft"
    for item in evidence.listed:
        yield item.asked_for, item.text, item.job_id
    for hook in evidence.hooks:
        yield hook.tenant_id, hook.text, f"the message {hook.message_id}"
    for job in evidence.records.newest.values():
        yield job.tenant_id, f"{job.input}{job.result}{job.last_error}", job.job_id


def never_early(evidence: Evidence) -> Finding:
    """G4: every timer, and the work that it wakes, came once and not before it was due."""
    found = Finding()
    fired: dict[bytes, list[float]] = defaultdict(list)
    for command in evidence.records.commands:
        fired[command.raw].append(command.at)
    standing = {seen.value.schedule_id: seen.value for seen in evidence.records.schedule}
    for seen in evidence.records.schedule:
        id_, timer = seen.value.schedule_id, seen.value
        times, due = fired[timer.value], timer.due_at / 1000
        replaced = standing[id_] is not timer
        once = len(times) == 1 or (replaced and not times)
        found.check(once, f"{id_}: fired {len(times)} times, not once")
        for at in times:
            found.check(at >= due - _CLOCK_GRAIN, f"{id_}: fired {due - at:.3f} s early")
    epochs = {run_id: job.epoch for run_id, job in evidence.records.leased.items()}
    for job_id, due, epoch in _due_work(evidence):
        for start in evidence.starts:
            if start.caller.job_id == job_id and epochs.get(start.caller.run_id, 0) > epoch:
                found.check(
                    start.at >= due - _CLOCK_GRAIN,
                    f"{job_id}: attempt {start.caller.attempt} began {due - start.at:.3f} s early",
                )
    return found


def _due_work(evidence: Evidence) -> Iterator[tuple[str, float, int]]:
    """Job, the moment before which no run may begin that has a higher epoch, and this epoch."""
    for submitted in evidence.submitted:
        yield submitted.job_id, submitted.not_before, -1
    for seen in evidence.records.schedule:
        command = COMMAND.decode(seen.value.value)
        if isinstance(command.body, Wake):
            yield command.job_id, seen.value.due_at / 1000, command.body.epoch


def visible_ends(evidence: Evidence) -> Finding:
    """G5: every job ended or waits visibly; failed jobs are in the dead letters."""
    found = Finding()
    dead = {seen.value.job_id for seen in evidence.records.dead}
    listed = {item.job_id: item.status for item in evidence.listed}
    for job_id, job in evidence.records.newest.items():
        found.check(
            job.status in TERMINAL | VISIBLY_WAITING,
            f"{job_id} of {job.tenant_id} is still {job.status}",
        )
        found.check(
            job.status not in IN_DEAD_LETTERS or job_id in dead,
            f"{job_id} of {job.tenant_id} is {job.status} and not in the dead letters",
        )
        shown = listed.get(job_id, "not there")
        found.check(shown == job.status, f"{job_id} is {job.status}, but over HTTP it is {shown}")
    return found


def state_is_the_fold(evidence: Evidence) -> Finding:
    """G6: each store on disk equals the fold of its committed changelog."""
    found = Finding()
    current: dict[tuple[str, str], bool] = defaultdict(bool)
    for store in evidence.stores:
        found.checked += store.keys
        if store.differing:
            shown = ", ".join(store.differing[:3])
            found.violations.append(
                f"{store.place}: {len(store.differing)} entries differ from the changelog ({shown})"
            )
        current[store.name, store.place.rpartition("/")[2]] |= store.current
    for (name, partition), is_current in current.items():
        found.check(is_current, f"{name}/{partition}: no process has folded its changelog in")
    return found


def moves_again(evidence: Evidence) -> Finding:
    """G8: after every kill, the interrupted work moved on by itself."""
    found = Finding()
    for kill in evidence.kills:
        back = kill.recovered_after
        found.check(
            back is not None and back <= RECOVERY_SECONDS,
            f"{kill.process}: {kill.in_flight} had not moved on {RECOVERY_SECONDS:g} s after "
            "it was killed",
        )
    return found


GUARANTEES: dict[str, Callable[[Evidence], Finding]] = {
    "G1": one_job_per_event,
    "G2": effects_once,
    "G3": tenants_apart,
    "G4": never_early,
    "G5": visible_ends,
    "G6": state_is_the_fold,
    "G7": deliveries_end,
    "G8": moves_again,
}
