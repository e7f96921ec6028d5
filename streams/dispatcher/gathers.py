"""What is known of the jobs that a call gathers: how many there are, have begun and have ended.

The list is sealed before its first job is made. The store `parts` keeps `G` parent_id incarnation
gather for the numbers, which is all that the end of a job changes, and `l` parent_id incarnation
gather place for each job of the list that is not made yet. `Y` scope job_id says how a job had
ended that lives again, so that all runs in the parent's scope read the same, also of its replays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass, replace
from itertools import islice
from typing import NamedTuple

import orjson

from streams import user_json
from streams.dispatcher.step import Step
from streams.dispatcher.tree import with_replays
from streams.dispatcher.wait_ends import child_failed
from streams.dispatcher.waiting import late_by, left_by
from streams.errors import PoisonRecord
from streams.serde.job_states import DEAD, SUCCEEDED
from streams.serde.keys import SEPARATOR, after, join
from streams.serde.records import ChildSpec, Job, SealGather, StepResult, Wait

NUMBERS, LISTED, ENDS = b"G", b"l", b"Y"
_CONFLICT = "ChildConflict"


class Outcome(NamedTuple):
    """How one job ended; `result` is JSON."""

    status: str
    result: str | None
    error: str | None
    job_id: str


@dataclass(frozen=True, slots=True)
class Gather:
    """The numbers of one gather. `failure` is the job that ended it, and `refusal` says why a job
    of the list cannot be made. `sealed_at` is in milliseconds."""

    digest: str
    count: int
    limit: int
    tolerated: int
    min_success: int
    listed: int = 0
    begun: int = 0
    succeeded: int = 0
    failed: int = 0
    is_over: bool = False
    failure: str = ""
    refusal: str = ""
    sealed_at: int = 0

    @property
    def room(self) -> int:
        """How many more jobs of the list may begin now."""
        if self.is_over or self.listed < self.count:
            return 0
        return max(0, min(self.limit - self.begun + self.ended, self.listed - self.begun))

    @property
    def ended(self) -> int:
        """How many of the jobs have ended."""
        return self.succeeded + self.failed

    def with_end(self, job: Job) -> Gather:
        """The numbers after the end of one of the jobs."""
        if job.status == SUCCEEDED:
            return replace(self, succeeded=self.succeeded + 1)._decided("")
        return replace(self, failed=self.failed + 1)._decided(job.job_id)

    def refused(self, why: str) -> Gather:
        """The numbers of a gather that ends because a job of its list cannot be made."""
        return replace(self, is_over=True, refusal=why)

    def _decided(self, failure: str) -> Gather:
        hopeless = self.failed > self.tolerated or self.count - self.failed < self.min_success
        if self.ended < self.count and not hopeless:
            return self
        return replace(self, is_over=True, failure=failure if hopeless else "")


def sealed(body: SealGather, now: int) -> Gather:
    """The numbers of a gather of which no job is known yet."""
    bounds = max(1, body.limit), body.tolerated, body.min_success
    gather = Gather(body.digest.hex(), body.count, *bounds)
    return replace(gather, is_over=body.count <= 0, sealed_at=now)


def find(step: Step, parent: Job, id_: str) -> Gather | None:
    """The numbers of a gather of a job, if its list was sealed."""
    value = step.store.get(_key(parent, id_))
    return None if value is None else Gather(*orjson.loads(value))


def put(step: Step, parent: Job, id_: str, gather: Gather) -> None:
    """Keep the numbers of a gather."""
    step.store.put(_key(parent, id_), orjson.dumps(astuple(gather)))


def list_more(step: Step, parent: Job, id_: str, first: int, specs: tuple[ChildSpec, ...]) -> None:
    """Keep jobs of a list until they are made."""
    for place, spec in enumerate(specs, first):
        step.store.put(_place(parent, id_, place), _packed(spec))


def check_digests(specs: Iterable[ChildSpec]) -> None:
    """Check what a list is to hold.

    Raises:
        PoisonRecord: a digest has another length than all have.
    """
    if any(len(spec.digest) != _DIGEST_BYTES for spec in specs):
        raise PoisonRecord("bad_digest", f"the digest of a job has {_DIGEST_BYTES} bytes")


def listed(step: Step, parent: Job, id_: str, place: int) -> ChildSpec:
    """The job at a place of the list that is not made yet."""
    return _unpacked(step.store.get(_place(parent, id_, place)) or b"")


def is_listed(step: Step, parent: Job, gather: Gather, job: Job) -> bool:
    """Whether a job is still to be counted by its gather, and older than that.

    A parent that lives again after it was dead gathers its jobs anew.
    """
    if job.parent is None or job.created_at >= gather.sealed_at:
        return False
    if gather.listed < gather.count:
        return True  # none of them has begun
    prefix = LISTED + run_of(parent) + join(job.parent.gather) + SEPARATOR
    left, own = step.store.range(prefix, after(prefix)), _packed_call(job.parent.call)
    return any(value.startswith(own, _DIGEST_BYTES) for _, value in left)


def begin(step: Step, parent: Job, id_: str, gather: Gather) -> None:
    """Note that the next job of the list is made now."""
    step.store.delete(_place(parent, id_, gather.begun))
    put(step, parent, id_, replace(gather, begun=gather.begun + 1))


def left(step: Step, wait: Wait, gather: Gather) -> StepResult:
    """What a gather leaves that is over."""
    if gather.refusal:
        return left_by(wait, raises=_CONFLICT, message=f"{wait.id}: {gather.refusal}")
    failure = step.table.get(gather.failure) if gather.failure else None
    if failure is not None:
        return child_failed(wait, failure)
    return left_by(wait, user_json.write({"count": gather.count}).decode())


def over_at_once(step: Step, job: Job, wait: Wait) -> StepResult | None:
    """What the wait for a gather leaves that is over, or cannot be."""
    gather = find(step, job, wait.id)
    if gather is None or (not gather.is_over and gather.listed < gather.count):
        told = 0 if gather is None else gather.listed
        message = f"{wait.id}: only {told:,} jobs of its list have come"
        return left_by(wait, raises="WaitRefused", message=message)
    if gather.is_over:
        return left(step, wait, gather)
    return None if wait.until is None or wait.until > step.now else time_over(step, job, wait)


def time_over(step: Step, job: Job, wait: Wait) -> StepResult:
    """What the wait for a gather leaves whose time is over: it says how far the gather is.

    The gather goes on as long as its parent does: then what is left of its list is dropped.
    """
    late, gather = late_by(wait), find(step, job, wait.id)
    if gather is None:
        return late
    far = f"{gather.begun:,} of {gather.count:,} are made, {gather.ended:,} of them have ended"
    return replace(late, message=f"{late.message}: {far}")


def outcome(step: Step, parent: Job, job_id: str) -> Outcome:
    """How a job ended that a parent gathered, or the replay that took its place.

    A replay of a job that had ended before is no child, and changes nothing.
    """
    job = step.table.get(job_id)
    if job is None or job.tenant_id != parent.tenant_id:
        return Outcome("forgotten", None, "it is not kept any more", job_id)
    *_, job = job, *(each for each in with_replays(step, job) if each.parent is not None)
    kept = step.store.get(_end(parent, job))
    if kept is not None:
        return Outcome(*user_json.read(kept))
    return Outcome(job.status, job.result, job.last_error, job.job_id)


def keep_end(step: Step, parent: Job, job: Job) -> None:
    """Keep how a dead job had ended that lives again, and that its gather does not count any more.

    What was kept before stays, since a run may have read it.
    """
    told, key = Outcome(DEAD, None, job.last_error, job.job_id), _end(parent, job)
    if step.store.get(key) is None:
        step.store.put(key, user_json.write(tuple(told)))


def forget_end(step: Step, parent: Job, job: Job) -> None:
    """Forget how a job had ended that another gather in the parent's scope counts from now on."""
    key = _end(parent, job)
    if step.store.get(key) is not None:
        step.store.delete(key)


def ends_in(scope: str) -> bytes:
    """How the keys begin of all that was kept of ends for the jobs that work in a scope."""
    return ENDS + join(scope) + SEPARATOR


def leftovers(step: Step, run: bytes, limit: int | None) -> list[bytes]:
    """Some keys of what a run's gathers keep, or one of them; `run` is how they begin."""
    found = (_keys(step, space + run) for space in (LISTED, NUMBERS))
    return list(islice((key for keys in found for key in keys), limit))


def run_of(job: Job) -> bytes:
    """How the keys of all gathers of a job begin."""
    return join(job.job_id, str(job.incarnation)) + SEPARATOR


def _keys(step: Step, prefix: bytes) -> Iterator[bytes]:
    return (key for key, _ in step.store.range(prefix, after(prefix)))


def _key(parent: Job, id_: str) -> bytes:
    return NUMBERS + run_of(parent) + join(id_)


def _place(parent: Job, id_: str, place: int) -> bytes:
    return LISTED + run_of(parent) + join(id_, f"{place:08x}")


def _end(parent: Job, job: Job) -> bytes:
    return ends_in(parent.scope) + join(job.job_id)


def _packed(spec: ChildSpec) -> bytes:
    fields = astuple(replace(spec, digest=b""))
    return spec.digest + orjson.dumps([*fields[:3], *fields[4:]])


def _packed_call(call: str) -> bytes:
    """How a packed job of this call goes on after its digest."""
    return orjson.dumps([call])[:-1] + b","


def _unpacked(value: bytes) -> ChildSpec:
    call, type_, text, *others = orjson.loads(value[_DIGEST_BYTES:])
    return ChildSpec(call, type_, text, value[:_DIGEST_BYTES], *others)


_DIGEST_BYTES = 32
