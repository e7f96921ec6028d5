"""A holder's starts of shared rates: how many jobs one partition may start, and until when.

A bucket's owner keeps its rate (`rates`) and grants starts to the partitions that ask. A start that
was granted holds for `Limit.start_seconds` since it was *asked* for; one that is not used by then
is lost. So in any window there are as many starts as the owner granted in that window and so many
seconds before it, and the owner's burst is smaller by what these bring (`Limit.least_burst`).

A partition asks for what it could start at once. While it lacks a worker alone it asks for one
start, and leaves it to others if they lack any: but one in `_TURN` intervals of the rate it takes
in its turn, since a worker and a start would else never be there together.

All this is remembered and never kept: after a restart a partition has no starts, and asks again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from streams.limits.buckets import Bucket
from streams.limits.rates import Undo
from streams.topology.limits import Limit

ANSWER_SECONDS = 1.0
"""For so long a partition waits for an answer before it asks again; a later claim is of no use."""
_TURN = 8


How = Literal["at_once", "in_turn", "left_over"]
"""Whether starts are asked for that could be used at once, or for which a worker is missing: in
this partition's turn, or if others leave some."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked for under a number, and when (seconds of the monotonic clock)."""

    number: int
    tokens: int
    at: float
    how: How


@dataclass(frozen=True, slots=True)
class Budget:
    """So many starts, until then."""

    tokens: int
    until: float


class Budgets:
    """The starts that one partition may still use, by bucket.

    `touched` are buckets to look at in this step: a job began to wait for them.
    """

    def __init__(self, limits: Mapping[str, Limit]) -> None:
        self.touched: set[Bucket] = set()
        self._limits = limits
        self._budgets: dict[Bucket, tuple[Budget, ...]] = {}  # those that end first come first
        self._spent: dict[tuple[Bucket, str], float] = {}  # until when a job could have started
        self._asked: dict[Bucket, Asked] = {}
        self._again_at: dict[Bucket, tuple[float, How]] = {}  # when to ask so once more
        self._turn_at: dict[Bucket, float] = {}
        self._last = 0

    def tokens(self, bucket: Bucket, now: float) -> int:
        """How many jobs may start now."""
        return sum(each.tokens for each in self._valid(bucket, now))

    def asked_again_at(self, bucket: Bucket) -> float | None:
        """When the owner has a token again, if it said so."""
        again = self._again_at.get(bucket)
        return None if again is None else again[0]

    def spend(self, bucket: Bucket, now: float, job_id: str, on_undo: Undo) -> None:
        """A job starts now."""
        valid = self._valid(bucket, now)
        if not valid:
            return
        on_undo(self._set, bucket, self._budgets.get(bucket, ()))
        on_undo(self._spent.pop, (bucket, job_id), None)
        first, *others = valid
        left = (Budget(first.tokens - 1, first.until),) if first.tokens > 1 else ()
        self._set(bucket, (*left, *others))
        self._spent[bucket, job_id] = first.until
        self._turn_at.pop(bucket, None)

    def give_back(self, bucket: Bucket, now: float, job_id: str, on_undo: Undo) -> bool:
        """A job did not start after all; whether another one may start in its place."""
        until = self._spent.pop((bucket, job_id), None)
        if until is None or until < now:
            return False
        before = self._budgets.get(bucket, ())
        on_undo(self._spent.__setitem__, (bucket, job_id), until)
        on_undo(self._set, bucket, before)
        self._set(bucket, tuple(sorted((*before, Budget(1, until)), key=lambda b: b.until)))
        return True

    def how(self, bucket: Bucket, now: float, *, at_once: bool) -> How:
        """How to ask for starts that could be used at once, or for which a worker is missing."""
        if at_once:
            return "at_once"
        return "in_turn" if now >= self._turn_at.get(bucket, now) else "left_over"

    def lacks(self, bucket: Bucket, wanted: int, now: float, how: How) -> int:
        """How many starts to ask for now."""
        asked = self._asked.get(bucket)
        if asked is not None and now < asked.at + ANSWER_SECONDS:
            return 0
        again_at, asked_so = self._again_at.get(bucket, (now, how))
        if now < again_at and (how == "left_over" or asked_so != "left_over"):
            return 0
        return max(0, wanted - self.tokens(bucket, now))

    def ask(
        self, bucket: Bucket, tokens: int, now: float, how: How, clock_ms: int, on_undo: Undo
    ) -> int:
        """Note that starts are asked for; the number of the claim, which no other one has."""
        on_undo(self._return_to, bucket, self._asked.get(bucket))
        self._last = max(self._last + 1, clock_ms)
        self._asked[bucket] = Asked(self._last, tokens, now, how)
        return self._last

    def granted(
        self, bucket: Bucket, number: int, tokens: int, wait: float, now: float, on_undo: Undo
    ) -> bool:
        """Take an owner's answer; False if it answers nothing that is asked, or comes too late."""
        asked, limit = self._asked.get(bucket), self._limits.get(bucket.limit)
        if asked is None or limit is None or limit.rate is None or asked.number != number:
            return False
        on_undo(self._return_to, bucket, asked)
        del self._asked[bucket]
        self._again_at.pop(bucket, None)
        if wait > 0:
            self._again_at[bucket] = now + wait, asked.how
        until = asked.at + limit.start_seconds
        if not tokens or now > until:
            return False
        on_undo(self._set, bucket, self._budgets.get(bucket, ()))
        self._set(bucket, (*self._valid(bucket, now), Budget(min(tokens, asked.tokens), until)))
        if asked.how == "in_turn":
            self._turn_at[bucket] = now + _TURN * limit.rate.interval
        return True

    def forget(self, now: float) -> None:
        """Forget what can no longer be used."""
        for bucket in list(self._budgets):
            self._set(bucket, self._valid(bucket, now))
        self._again_at = {b: each for b, each in self._again_at.items() if each[0] > now}
        self._turn_at = {b: at for b, at in self._turn_at.items() if at > now}
        self._spent = {place: until for place, until in self._spent.items() if until >= now}
        self._asked = {b: each for b, each in self._asked.items() if each.at + ANSWER_SECONDS > now}

    @property
    def are_open(self) -> bool:
        """Whether an answer is awaited."""
        return bool(self._asked)

    def _valid(self, bucket: Bucket, now: float) -> tuple[Budget, ...]:
        return tuple(each for each in self._budgets.get(bucket, ()) if now <= each.until)

    def _set(self, bucket: Bucket, budgets: tuple[Budget, ...]) -> None:
        if budgets:
            self._budgets[bucket] = budgets
        else:
            self._budgets.pop(bucket, None)

    def _return_to(self, bucket: Bucket, asked: Asked | None) -> None:
        if asked is None:
            self._asked.pop(bucket, None)
        else:
            self._asked[bucket] = asked
