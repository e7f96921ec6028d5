"""Jobs that a limit of their own holds back, and when there is room for them again.

A job that is counted by its tenant, pool and type alone stays in its queue while these are full.
Those with buckets of their own (`limits.buckets`) wait in lines, of which so many are in the queues
as there is room for. A line without room waits for the bucket that is full, and goes on when a job
of the bucket ended, or at the bucket's next token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from streams.dispatcher.live_index import Live
from streams.dispatcher.tokens import Tokens
from streams.fairness.contenders import Line, Name
from streams.fairness.ready_queue import Ready
from streams.fairness.set_aside import Back, SetAside
from streams.limits.buckets import Bucket
from streams.limits.caps import Caps
from streams.limits.paused import Scope, bucket_of
from streams.limits.reservation import TAKEN_MS
from streams.topology.limits import Limit
from streams.topology.model import Topology

_BACK_AT_ONCE = 256
"""So many jobs come back in one call because of a bucket, and so many buckets are looked at."""
_LINES_AT_ONCE = 2_000
"""So many lines are looked at in one call, at most."""


class Limited:
    """The limits of one partition, and the jobs that they hold back."""

    def __init__(self, topology: Topology) -> None:
        self.caps = Caps(topology.limits, topology.breakers)
        self.tokens = Tokens(self.caps)
        buckets = self.caps.buckets
        self.aside = SetAside(topology.priorities, buckets.shared | buckets.shared_rates)
        self._has_shared = bool(buckets.shared or buckets.shared_rates)
        self._unled: dict[int, Line] = {}  # lines of which more jobs may go ahead
        self._is_restored = False
        self._opened: dict[Bucket, None] = {}  # in which there may be room, oldest first
        self.changed: set[str] = set()
        """Tenants whose own limits have changed here: their jobs may wait by former ones."""

    def waits(self, job_id: str, live: Live) -> bool:
        """A job waits for a slot now; whether it is kept out of its queue for now."""
        own = self.caps.buckets.of_job(live)
        if not own:
            return False
        line = self.aside.line(_name(live), own)
        is_first = self._is_restored and not line.ahead and not line.waiting
        if is_first and self.caps.places(own) >= 1:
            self.aside.go_ahead(line, (live.at, job_id, line.number))
            return False
        self.aside.add(line, live.at, job_id)
        self._lead(line)
        if line.contender is not None:
            self._touch((line.contender.bucket,))
        return True

    def waits_no_more(self, job_id: str) -> None:
        line = self.aside.remove(job_id)
        if line is not None:
            self._lead(line)
        self._opened.update(dict.fromkeys(self.caps.reservation.waits_no_more(job_id)))

    def held_back(self, ready: Ready) -> bool:
        """Whether a job may not start because a bucket of its own is full: then it is set aside."""
        line = self.aside.line_ahead(ready.job_id)
        bucket = None if line is None else self.caps.full(line.own, ready.job_id)
        if line is None or bucket is None:
            return False
        self.aside.put_back(line, ready.ready_at, ready.job_id)
        if line.contender is None:
            self._set_aside(line, bucket)
        return True

    def wants_permits(self, pool: str, type_: str) -> None:
        """A job waits in a queue: look at the shared limits of its pool and type."""
        if self._has_shared:
            self._touch(self.caps.buckets.shared_of_type(pool, type_))

    def look_at(self, bucket: Bucket) -> None:
        """Look again at the jobs that wait for a bucket, since there may be room for some."""
        if self.aside.has(bucket):
            self._opened[bucket] = None

    def started(self, live: Live) -> None:
        self.caps.started(live)

    def ended(self, live: Live) -> None:
        """A job gave its slot back: some of those that waited for it come back later."""
        freed = self.caps.ended(live)
        self._opened.update(dict.fromkeys(filter(self.aside.has, freed)))
        self._touch(freed)
        line = self.aside.known(_name(live), self.caps.buckets.of_job(live))
        if line is not None:
            self._lead(line)

    def limit_tenant(
        self, tenant_id: str, limits: tuple[Limit, ...], running: Sequence[Live]
    ) -> None:
        """A tenant has other limits of its own: its jobs that are set aside come back later."""
        self.caps.set_own(tenant_id, limits, running)
        self._opened.update(dict.fromkeys(self.aside.buckets_of(tenant_id)))
        for line in self.aside.lines_of(tenant_id):
            self._lead(line)
        self.changed.add(tenant_id)

    def is_counted_so(self, job_id: str, live: Live) -> bool:
        """Whether a job in its queue waits by the limits that its tenant has now."""
        line = self.aside.line_ahead(job_id)
        return self.caps.buckets.of_job(live) == (() if line is None else line.own)

    def pause(self, scope: Scope, value: str, is_paused: bool) -> None:
        """Something is paused, or no longer is: the jobs that waited for it come back later."""
        self.caps.paused.set(scope, value, is_paused)
        if not is_paused:
            self.look_at(bucket_of(scope, value))

    def pass_time(self, monotonic: float) -> Iterator[Bucket]:
        """Set the clock; yields the buckets that have a token again."""
        for bucket in self.tokens.pass_time(monotonic):
            self._opened[bucket] = None
            yield bucket

    def _touch(self, buckets: tuple[Bucket, ...]) -> None:
        """Look at those of the buckets that are shared, before this step ends."""
        if self._has_shared:
            shared, rates = self.caps.buckets.shared, self.caps.buckets.shared_rates
            self.caps.permits.touched.update({b: None for b in buckets if b.limit in shared})
            self.caps.budgets.touched.update(b for b in buckets if b.limit in rates)

    def back(
        self, now: int, is_stopped: Callable[[Name], bool] = lambda _: False
    ) -> Iterator[Back]:
        """Yield jobs for which there is room; put each into its queue before the next.

        `is_stopped` says of which names people let no job start.
        """
        yield from self._reserved(now, is_stopped)
        yield from self.led(now)
        left, lines = _BACK_AT_ONCE, _LINES_AT_ONCE
        for bucket in list(islice(self._opened, _BACK_AT_ONCE)):
            if not left or not lines:
                return  # the next call begins with this bucket
            room = self.caps.room(bucket) - self.caps.reservation.kept(bucket, None)
            while min(room, left, lines) >= 1 and (line := self.aside.first(bucket)) is not None:
                lines -= 1
                if self._is_full(line):
                    continue
                if line.ahead >= self.caps.places(line.own):
                    self.aside.rest(line)
                    continue
                room, left = room - 1, left - 1
                yield self.aside.take(line, now)
            self._look_again(bucket)

    def _lead(self, line: Line) -> None:
        """Look at a line before jobs are leased, unless it waits for a bucket."""
        if line.waiting and line.contender is None:
            self._unled[line.number] = line

    @property
    def has_unled(self) -> bool:
        """Whether there are lines of which more jobs may go ahead."""
        return bool(self._unled)

    def led(self, now: int) -> Iterator[Back]:
        """Yield jobs of some lines that are new, or have fewer ahead than there is room for.

        Jobs are restored in the order of their ids, and the oldest go ahead: call it after that.
        """
        self._is_restored = True
        for _ in range(min(_LINES_AT_ONCE, len(self._unled))):
            line = self._unled.pop(next(iter(self._unled)))
            if not line.waiting or line.contender is not None or self._is_full(line):
                continue
            places = self.caps.places(line.own)
            for _ in range(_BACK_AT_ONCE):
                if not line.waiting or line.ahead >= _most_ahead(line, places):
                    break
                yield self.aside.take(line, now)
            else:
                self._lead(line)

    def _is_full(self, line: Line) -> bool:
        """Whether there is no room for a line: then all of it waits for the bucket that is full."""
        bucket = self.caps.full(line.own)
        if bucket is not None:
            self._set_aside(line, bucket)
        return bucket is not None

    def _set_aside(self, line: Line, bucket: Bucket) -> None:
        """Let a line wait for a bucket; its oldest job may have waited for another one before."""
        self.aside.wait(line, bucket)
        ready_at, job_id, _ = line.jobs[0]
        self.caps.reservation.set_aside(job_id, ready_at, bucket, line.own)
        self.tokens.expect(bucket)
        self._touch((bucket,))

    def _look_again(self, bucket: Bucket) -> None:
        """Keep looking at a bucket that has both room and jobs; wait for a token if it has none."""
        del self._opened[bucket]
        if not self.aside.has(bucket):
            return
        if self.caps.room(bucket) - self.caps.reservation.kept(bucket, None) >= 1:
            self._opened[bucket] = None
        else:
            self.tokens.expect(bucket)

    def _reserved(self, now: int, is_stopped: Callable[[Name], bool]) -> Iterator[Back]:
        """Yield the job for which places are kept, once all of them are free."""
        reservation = self.caps.reservation
        self._opened.update(dict.fromkeys(reservation.pass_time(now)))
        job_id = reservation.job_id
        name = None if job_id is None else self.aside.name(job_id)
        is_hopeless = name is not None and is_stopped(name)
        if job_id is not None and (is_hopeless or any(map(self._is_far_off, reservation.buckets))):
            self._opened.update(dict.fromkeys(reservation.waits_no_more(job_id)))
        elif job_id is not None and all(self.caps.room(b) >= 1 for b in reservation.buckets):
            reservation.is_free(now)
            found = self.aside.take_job(job_id)
            if found is not None:
                yield found

    def _is_far_off(self, bucket: Bucket) -> bool:
        """Whether a bucket is paused, or time makes room in it so late that no place is kept."""
        if bucket in self.caps.paused.buckets:
            return True
        moment = self.caps.next_room_at(bucket)
        return moment is not None and moment > self.caps.now + TAKEN_MS / 1000


def _name(live: Live) -> Name:
    return live.pool, live.tenant_id, live.type, live.priority


def _most_ahead(line: Line, places: float) -> float:
    """How many of a line are ahead: twice as many as have room, if they are younger than others.

    They are younger after a step was taken back.
    """
    is_younger = line.last is not None and line.jobs[0][0] < line.last[0]
    return 2 * places if line.ahead and is_younger else places
