"""A holder's starts of shared rates: how many jobs one partition may start, and until when.

A bucket's owner keeps its rate (`rates`) and grants starts to the partitions that ask. A start that
was granted holds for `VALID_SECONDS` since it was *asked* for; one that is not used by then is
lost. So in any window there are as many starts as the owner granted in that window and the second
before it, and the owner's burst is smaller by what a second brings (`Limit.least_burst`).

All this is remembered and never kept: after a restart a partition has no starts, and asks again.
"""

from __future__ import annotations

from dataclasses import dataclass

from streams.limits.buckets import Bucket
from streams.limits.rates import Undo

VALID_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked for under a number, and when (seconds of the monotonic clock)."""

    number: int
    tokens: int
    at: float


@dataclass(frozen=True, slots=True)
class Budget:
    """So many starts, until then."""

    tokens: int
    until: float


class Budgets:
    """The starts that one partition may still use, by bucket.

    `touched` are buckets to look at in this step: a job began to wait for them.
    """

    def __init__(self) -> None:
        self.touched: set[Bucket] = set()
        self._budgets: dict[Bucket, tuple[Budget, ...]] = {}  # those that end first come first
        self._asked: dict[Bucket, Asked] = {}
        self._again_at: dict[Bucket, float] = {}
        self._last = 0

    def tokens(self, bucket: Bucket, now: float) -> int:
        """How many jobs may start now."""
        return sum(each.tokens for each in self._valid(bucket, now))

    def asked_again_at(self, bucket: Bucket) -> float | None:
        """When the owner has a token again, if it said so."""
        return self._again_at.get(bucket)

    def spend(self, bucket: Bucket, now: float, on_undo: Undo) -> None:
        """A job starts now."""
        valid = self._valid(bucket, now)
        if not valid:
            return
        on_undo(self._set, bucket, self._budgets.get(bucket, ()))
        first, *others = valid
        left = (Budget(first.tokens - 1, first.until),) if first.tokens > 1 else ()
        self._set(bucket, (*left, *others))

    def lacks(self, bucket: Bucket, wanted: int, now: float) -> int:
        """How many starts to ask for now."""
        asked = self._asked.get(bucket)
        waits = asked is not None and now < asked.at + VALID_SECONDS
        if waits or now < self._again_at.get(bucket, now):
            return 0
        return max(0, wanted - self.tokens(bucket, now))

    def ask(self, bucket: Bucket, tokens: int, now: float, clock_ms: int, on_undo: Undo) -> int:
        """Note that starts are asked for; the number of the claim, which no other one has."""
        on_undo(self._return_to, bucket, self._asked.get(bucket))
        self._last = max(self._last + 1, clock_ms)
        self._asked[bucket] = Asked(self._last, tokens, now)
        return self._last

    def granted(
        self, bucket: Bucket, number: int, tokens: int, wait: float, now: float, on_undo: Undo
    ) -> bool:
        """Take an owner's answer; False if it answers nothing that is asked, or comes too late."""
        asked = self._asked.get(bucket)
        if asked is None or asked.number != number:
            return False
        on_undo(self._return_to, bucket, asked)
        del self._asked[bucket]
        self._again_at.pop(bucket, None)
        if wait > 0:
            self._again_at[bucket] = now + wait
        until = asked.at + VALID_SECONDS
        if not tokens or now > until:
            return False
        on_undo(self._set, bucket, self._budgets.get(bucket, ()))
        self._set(bucket, (*self._valid(bucket, now), Budget(min(tokens, asked.tokens), until)))
        return True

    def forget(self, now: float) -> None:
        """Forget what can no longer be used."""
        for bucket in list(self._budgets):
            self._set(bucket, self._valid(bucket, now))
        self._again_at = {b: at for b, at in self._again_at.items() if at > now}
        self._asked = {b: each for b, each in self._asked.items() if each.at + VALID_SECONDS > now}

    @property
    def are_open(self) -> bool:
        """Whether something is asked for, or can still be used."""
        return bool(self._asked or self._budgets)

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
