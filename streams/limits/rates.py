"""Rates: at most so many starts in any time, by the generic cell rate algorithm (ITU-T I.371).

A bucket has a *theoretical arrival time*: when the next start would come if all came evenly. A
start may be ahead of it by `burst - 1` intervals. In any window of `s` seconds at most
`burst + s / interval` start.

Times are seconds of this process's monotonic clock, so no step of the machine's clock gives or
takes tokens. What the bucket's next owner is told (`limit_rows`) is in the machine's time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from streams.limits.buckets import Bucket
from streams.topology.limits import Limit

Undo = Callable[..., None]


@dataclass(frozen=True, slots=True)
class Pace:
    """How far starts are apart (seconds), and how many may come at once."""

    interval: float
    burst: int

    def tokens(self, arrival: float, now: float) -> int:
        """How many may start now."""
        ahead = now - self.next_token_at(arrival)
        return 0 if ahead < 0 else min(self.burst, int(ahead / self.interval) + 1)

    def next_token_at(self, arrival: float) -> float:
        """From when on one may start."""
        return arrival - (self.burst - 1) * self.interval

    def latest(self, now: float) -> float:
        """The arrival time of a bucket whose burst was spent just now."""
        return now + self.burst * self.interval


def pace_of(limit: Limit) -> Pace | None:
    """The pace of a limit with a rate, at which its starts are granted if it is a shared one."""
    if limit.rate is None:
        return None
    burst = limit.most_at_once - limit.least_burst + 1
    return Pace(limit.rate.interval, burst)


class Rates:
    """The arrival times of one partition's buckets; one without any has its whole burst."""

    def __init__(self, limits: dict[str, Limit]) -> None:
        paces = {name: pace_of(limit) for name, limit in limits.items()}
        self.paces = {name: pace for name, pace in paces.items() if pace is not None}
        self._own: dict[str, dict[str, Pace | None]] = {}
        self._arrivals: dict[Bucket, float] = {}
        self._last: dict[Bucket, tuple[float, set[str]]] = {}  # when, and who, started last

    def __bool__(self) -> bool:
        """Whether any limit may have a rate."""
        return bool(self.paces or self._own)

    def set_own(self, tenant_id: str, limits: tuple[Limit, ...]) -> None:
        """Give a tenant limits of its own; none takes what it had."""
        self._own.pop(tenant_id, None)
        if limits:
            self._own[tenant_id] = {limit.name: pace_of(limit) for limit in limits}

    def pace(self, bucket: Bucket) -> Pace | None:
        """The pace of a bucket, if its limit has a rate."""
        own = self._own.get(bucket.tenant_id)
        if own is not None and bucket.limit in own:
            return own[bucket.limit]
        return self.paces.get(bucket.limit)

    def tokens(self, bucket: Bucket, now: float) -> float:
        """How many may start now under a bucket; infinite without a rate."""
        pace = self.pace(bucket)
        if pace is None:
            return inf
        arrival = self._arrivals.get(bucket)
        return pace.burst if arrival is None else pace.tokens(arrival, now)

    def next_token_at(self, bucket: Bucket) -> float | None:
        """From when on one may start, if the bucket's rate was ever used and is not forgotten."""
        arrival, pace = self._arrivals.get(bucket), self.pace(bucket)
        return None if arrival is None or pace is None else pace.next_token_at(arrival)

    def restored(self, bucket: Bucket, arrival: float, now: float) -> None:
        """Go on with what an earlier owner spent; a clock that runs ahead stalls nothing."""
        pace = self.pace(bucket)
        if pace is not None:
            self._arrivals[bucket] = min(arrival, pace.latest(now))

    def spend(self, bucket: Bucket, now: float, job_id: str, on_undo: Undo) -> float:
        """A job starts now: the bucket's new arrival time; `on_undo` hears how to take it back."""
        before = self._arrivals.get(bucket)
        on_undo(self._set, bucket, before)
        pace = self.pace(bucket)
        arrival = max(now, before or now) + (pace.interval if pace is not None else 0)
        self._arrivals[bucket] = arrival
        last = self._last.get(bucket)
        if last is None or last[0] != now:
            self._last[bucket] = now, set()
        self._last[bucket][1].add(job_id)
        return arrival

    def give_back(self, bucket: Bucket, now: float, job_id: str, on_undo: Undo) -> float | None:
        """A job did not start after all: the bucket's new arrival time, or None if it has the same.

        Only the last to start give theirs back: later ones might have had to wait without them.
        """
        before, (_, jobs) = self._arrivals.get(bucket), self._last.get(bucket, (now, set()))
        pace = self.pace(bucket)
        if pace is None or before is None or before <= now or job_id not in jobs:
            return None
        jobs.remove(job_id)
        on_undo(jobs.add, job_id)
        on_undo(self._set, bucket, before)
        arrival = self._arrivals[bucket] = max(now, before - pace.interval)
        return arrival

    def forget(self, bucket: Bucket, now: float, on_undo: Undo) -> bool:
        """Forget a bucket whose burst is whole again; whether it was."""
        arrival = self._arrivals.get(bucket)
        if arrival is not None and arrival > now:
            return False
        on_undo(self._set, bucket, arrival)
        self._set(bucket, None)
        self._last.pop(bucket, None)
        return True

    def _set(self, bucket: Bucket, arrival: float | None) -> None:
        if arrival is None:
            self._arrivals.pop(bucket, None)
        else:
            self._arrivals[bucket] = arrival
