"""Why a wait cannot begin: each fault tells the author of the handler what to do instead."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from streams.dispatcher import gathers
from streams.dispatcher.recent_events import RecentEvents
from streams.dispatcher.step import Step
from streams.errors import LONGEST_WAIT_SECONDS, PoisonRecord
from streams.event_match import read_match
from streams.http.moments import rfc3339
from streams.serde.job_states import WAITING
from streams.serde.records import Job, Wait
from streams.serde.sizes import MAX_WAITS_BYTES
from streams.serde.step_ids import is_note
from streams.topology.model import Topology

MOST_OPEN = 150
"""How many open waits a job may have: its record has them all."""
_MOST_PARKED, _MOST_PLACES = 100, 2_000
"""How many waits one park has, and their groups. A worker takes no more either; opening so many is
quick, and takes a time that grows with the square of their number."""
_LONGEST_PART = 256
"""How long each part of a wait is that `Wait.size` does not count."""
_MOST_FOLLOWED = 100
"""Through how many jobs a circle of jobs is found that wait for each other."""
_MOST_WAITERS = 1_000
"""Among how many jobs that wait for one the next job of a circle is found."""


class WaitFaults:
    """Finds the faults of the waits of one partition's jobs."""

    def __init__(self, topology: Topology, recent: RecentEvents) -> None:
        self._body_ms = topology.topics["payloads"].retention_ms
        self._recent = recent

    def of(self, step: Step, job: Job, asked: Wait, wait: Wait) -> str | None:
        """Why a wait cannot begin, or None."""
        until = wait.until
        if len(job.waits) > MOST_OPEN:
            listened = sum(each.listened for each in job.waits)
            return (
                f"the job would have {len(job.waits)} open waits, {listened} of which it listens "
                f"to, and {MOST_OPEN} are the most: wait for fewer at once, or listen to fewer"
            )
        if sum(each.size for each in job.waits) > MAX_WAITS_BYTES:
            return f"the job's open waits have more than {MAX_WAITS_BYTES:,} bytes of text"
        if until is not None and until > step.now + LONGEST_WAIT_SECONDS * 1000:
            return f"it would wait until {rfc3339(until)}, which is more than a year"
        expires = self._body_ms and job.event_time + self._body_ms
        if until is not None and job.payload_ref is not None and expires and until > expires:
            return (
                f"it would wait until {rfc3339(until)}, but the job's body is kept only until "
                f"{rfc3339(expires)} (retention of the topic payloads): shorten the wait"
            )
        if wait.kind in ("job", "gather"):
            return (_job_fault if wait.kind == "job" else _gather_fault)(step, job, wait)
        return self._match_fault(step, job, asked) if wait.kind == "event" else None

    def endless(self, step: Step, job: Job) -> Wait | None:
        """A wait of a parked job that began before and will never end; None if there is none.

        A job that runs is in no circle, so one may be closed meanwhile without a refusal.
        """
        again = (wait for wait in job.waits if wait.at != step.now and wait.groups)
        for_ends = (wait for wait in again if wait.kind in ("job", "gather"))
        found = next((wait for wait in for_ends if wait.until is None), None)
        return found if found is not None and _waits_for_ever(step, job) else None

    def _match_fault(self, step: Step, job: Job, asked: Wait) -> str | None:
        match = read_match(asked.match)
        if asked.since == "now" and asked.behind is None:
            return None
        kept = self._recent.kept_since(step, match)
        types = f"source {match.source!r}, event type {match.event_type!r}"
        if kept is None:
            return (
                f"events of {types} are not kept for waits that begin after them: name them under "
                f"waits_for of job type {job.type!r} in the topology, or use since='now'"
            )
        since = counts_since(job, asked)
        if since < kept.at if asked.behind is None else asked.behind < kept.number:
            return (
                f"events of {types} are kept since {rfc3339(kept.at)}, not since "
                f"{rfc3339(since)}: use ctx.listen before what may cause the event, or a later "
                "`since`, or raise retention.lookback_minutes in the topology"
            )
        return None


def check_asked(asked: Collection[Wait]) -> None:
    """Check the waits that a worker asks for at once.

    Raises:
        PoisonRecord: no handler can ask so.
    """
    if len(asked) > _MOST_PARKED or sum(len(wait.others) for wait in asked) > _MOST_PLACES:
        detail = f"a park has at most {_MOST_PARKED} waits, in {_MOST_PLACES:,} groups"
        raise PoisonRecord("too_many_waits", detail)
    for wait in asked:
        if is_note(wait.id):
            raise PoisonRecord("forged_result", f"no wait is called {wait.id[:200]!r}")
        others = wait.since, wait.approval_id or "", wait.after_event
        if max(map(len, (*others, wait.digest, wait.failed_before))) > _LONGEST_PART:
            detail = f"a part of wait {wait.id[:200]!r} is longer than {_LONGEST_PART}"
            raise PoisonRecord("bad_wait", detail)


def counts_since(job: Job, asked: Wait) -> int:
    """From when on events count, in milliseconds."""
    return int(asked.since) if asked.since.lstrip("-").isdecimal() else job.event_time


def _job_fault(step: Step, job: Job, wait: Wait) -> str | None:
    awaited = step.table.get(wait.job_id or "")
    if wait.job_id == job.job_id:
        return "a job cannot wait for its own end"
    if awaited is None or awaited.tenant_id != job.tenant_id:
        return f"no job {wait.job_id} of this tenant: it is not made yet, or forgotten"
    if _waits_for_ever(step, job):
        return f"job {wait.job_id} waits for this one: each would wait for ever"
    return None


def _gather_fault(step: Step, job: Job, wait: Wait) -> str | None:
    if _waits_for_ever(step, job):
        return "one of its jobs waits for this one: each would wait for ever"
    return None


def _waits_for_ever(step: Step, job: Job) -> bool:
    """Whether a job, and all that it waits for, wait for nothing but the end of each other."""
    circle = _reached(step, job, _awaited) | _reached(step, job, _awaiting)
    while job.job_id in circle:
        free = [id_ for id_, each in circle.items() if not _is_stuck(step, circle, each)]
        if not free:
            return True
        for id_ in free:
            del circle[id_]
    return False


def _reached(step: Step, job: Job, others: Callable[[Step, Job], Iterable[str]]) -> dict[str, Job]:
    """A job, and some that are reached from it, as long as each waits."""
    found, ids = dict[str, Job](), [job.job_id]
    known = set(ids)
    for id_ in ids:
        each = step.table.get(id_)
        if each is not None and each.status == WAITING:
            found[id_] = each
            new = [other for other in dict.fromkeys(others(step, each)) if other not in known]
            ids += new
            known.update(new)
        if len(found) == _MOST_FOLLOWED:
            break
    return found


def _awaited(step: Step, job: Job) -> Iterable[str]:
    """The jobs that a job waits for, without those that it gathers: these may be many."""
    return (wait.job_id for wait in job.waits if wait.job_id is not None)


def _awaiting(step: Step, job: Job) -> Iterator[str]:
    """The jobs that wait for the end of this one, if somebody waits for theirs."""
    if job.parent is not None and job.parent.gather:
        yield job.parent.job_id
    for place in step.shared.open_waits.for_job(step, job.job_id, _MOST_WAITERS):
        if _is_awaited(step, place.job_id):
            yield place.job_id


def _is_awaited(step: Step, job_id: str) -> bool:
    job = step.table.get(job_id)
    is_gathered = job is not None and job.parent is not None and bool(job.parent.gather)
    return is_gathered or bool(step.shared.open_waits.for_job(step, job_id, 1))


def _is_stuck(step: Step, circle: Mapping[str, Job], job: Job) -> bool:
    """Whether no group of a job's waits can be over before a job of a circle has ended.

    One that needs all of its waits cannot if one of them cannot; that another may fail is not
    counted on.
    """
    parents = (each.parent for each in circle.values() if each.parent is not None)
    gathered = {p.gather for p in parents if (p.job_id, p.incarnation) == _life(job)}

    def is_of(wait: Wait) -> bool:
        if wait.until is not None:
            return False
        if wait.kind == "gather":
            return wait.id in gathered and not _is_over(step, job, wait)
        return wait.kind == "job" and wait.job_id in circle

    groups = {group for wait in job.waits for group in wait.groups}
    return bool(groups) and all(
        (any if group.needs_all else all)(is_of(w) for w in job.waits if group in w.groups)
        for group in groups
    )


def _life(job: Job) -> tuple[str, int]:
    return job.job_id, job.incarnation


def _is_over(step: Step, job: Job, wait: Wait) -> bool:
    gather = gathers.find(step, job, wait.id)
    return gather is None or gather.is_over
