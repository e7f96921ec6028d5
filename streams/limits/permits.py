"""A holder's permits: what one partition may start under a limit that is shared by all partitions.

Each bucket of a shared limit has an owner, which hands out as many permits as its cap has places
(`sharing`). A partition starts a job only with a permit that it holds, so over all partitions no
more run than there are permits. A holder asks by a claim, and the owner answers by a grant; both
have totals in them, so that reading one twice changes nothing.

No clock takes a permit from a job that runs. A permit is given back by its holder alone, after it
was of no use for a while, or as soon as it is free if the owner recalls it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from streams.limits.buckets import Bucket

UNBOUNDED = (1 << 31) - 1
"""The target of a holder from which no permit is recalled."""
IDLE_SECONDS = 0.2
IDLE_SECONDS_OF_CALLS = 10.0
"""A run that finds no permit for its call ends and begins again, so permits of calls stay longer.
If another partition lacks one, it is recalled at once."""
_REPEAT_SECONDS = 30.0
"""A claim without the answer that it waits for is repeated then, in case its topic lost it."""


@dataclass(frozen=True, slots=True)
class Holding:
    """What one partition holds of one bucket.

    - `incarnation` tells this holding from an earlier one of the same bucket.
    - `number` counts its claims.
    - `granted` and `returned` are totals over the incarnation, as far as it was told and gave back.
    - `want` is how many permits the last claim asked to hold in all.
    - `target` is to how many the owner recalls.
    """

    incarnation: int
    number: int = 0
    granted: int = 0
    returned: int = 0
    want: int = 0
    target: int = UNBOUNDED

    @property
    def held(self) -> int:
        """How many permits it holds, those of running jobs among them."""
        return self.granted - self.returned

    def claims(self, want: int, give_back: int = 0) -> Holding:
        """Itself with its next claim."""
        returned = self.returned + give_back
        return replace(self, number=self.number + 1, want=want, returned=returned)

    def told(self, granted: int, target: int) -> Holding:
        """Itself after a grant; an older one takes nothing away."""
        if granted < self.granted:
            return self
        return replace(self, granted=granted, target=target)

    def is_over(self, number: int, granted: int, returned: int) -> bool:
        """Whether a grant says that the owner has forgotten it, and it wanted nothing since."""
        known = number, granted, returned
        return known == (self.number, self.granted, self.returned) and not (self.held or self.want)

    def at_once(self, used: int, wanted: int, kept: int = 0) -> Holding | None:
        """Itself with a claim that cannot wait: it lacks permits, or some are recalled and free.

        `used` are places of running jobs, `wanted` how many it could use now, those among them, and
        `kept` how many free ones wait for a job with a reservation.
        """
        recalled = max(0, min(self.held - self.target, self.held - used - kept))
        lacks = wanted > max(self.want, self.held - recalled)
        if lacks or recalled or not self.number:
            return self.claims(wanted, recalled)
        return None

    def after_a_while(
        self, used: int, wanted: int, kept: int = 0, useful: int | None = None
    ) -> Holding | None:
        """Itself with a claim that wants less, and gives back what was idle.

        `wanted` is the most that it could use lately, and `useful` (the same unless given) how many
        permits stay.
        """
        idle = max(0, self.held - max(wanted if useful is None else useful, used + kept))
        return self.claims(wanted, idle) if idle or wanted < self.want else None

    @property
    def waits_for_owner(self) -> bool:
        """Whether it expects an answer: more permits, or that the owner forgets it."""
        return self.want > self.held or not (self.want or self.held)


class Window:
    """The most permits that a partition could use of one bucket in the last `seconds` at least."""

    __slots__ = ("_before", "_now", "_seconds", "_since")

    def __init__(self, now: float, seconds: float = IDLE_SECONDS) -> None:
        self._since = now
        self._seconds = seconds
        self._before = self._now = 0

    def saw(self, wanted: int) -> None:
        """Note how many it could use now."""
        self._now = max(self._now, wanted)

    def most(self, now: float, wanted: int) -> int | None:
        """The most in that time at least; None if it is too early to look."""
        if now < self._since + self._seconds / 2:
            return None
        most = max(self._before, self._now)
        self._since, self._before, self._now = now, self._now, wanted
        return most


class Lately:
    """What was lately of one bucket: how many permits were of use, and what the owner has heard.

    `heard` is how many it is known to have taken back in all. That is remembered and never kept.
    """

    __slots__ = ("_useful", "_wanted", "claimed_at", "heard")

    def __init__(self, now: float, idle: float = IDLE_SECONDS) -> None:
        self._wanted, self._useful = Window(now), Window(now, idle)
        self.claimed_at = now
        self.heard = 0

    def saw(self, wanted: int) -> None:
        """Note how many permits could be used now."""
        self._wanted.saw(wanted)
        self._useful.saw(wanted)

    def after_a_while(
        self, holding: Holding, used: int, wanted: int, kept: int, now: float
    ) -> Holding | None:
        """What is held with a claim that wants less or gives some back, if it is time to look."""
        most = self._wanted.most(now, wanted)
        if most is None:
            return None
        useful = self._useful.most(now, wanted)
        return holding.after_a_while(used, most, kept, holding.held if useful is None else useful)

    def repeats(self, holding: Holding, now: float) -> bool:
        """Whether a claim is to be sent again, because its answer did not come."""
        is_late = now >= self.claimed_at + _REPEAT_SECONDS
        return is_late and (holding.waits_for_owner or self.heard < holding.returned)


class Permits:
    """All that one partition holds of shared limits.

    `touched` are buckets to look at in this step: a job began to wait, started or ended, or a
    grant came.
    """

    def __init__(self) -> None:
        self.holdings: dict[Bucket, Holding] = {}
        self.held: Counter[str] = Counter()
        self.wanted: Counter[str] = Counter()
        """How many permits are held and wanted in all, by limit."""
        self.touched: dict[Bucket, None] = {}
        self._lately: dict[Bucket, Lately] = {}
        self._to_look: list[Bucket] = []

    def restored(self, holdings: Iterable[tuple[Bucket, Holding]]) -> None:
        """Go on with some of what an earlier owner of the partition held."""
        for bucket, holding in holdings:
            self.set(bucket, holding)
            self.touched[bucket] = None

    def room(self, bucket: Bucket, used: int, *, is_reserved: bool) -> int:
        """How many more jobs may start; of those that are recalled, one if a place is reserved."""
        holding = self.holdings.get(bucket)
        if holding is None:
            return 0
        kept = max(holding.target, used + 1) if is_reserved else holding.target
        return max(0, min(holding.held, kept) - used)

    def set(self, bucket: Bucket, holding: Holding | None) -> None:
        """Hold so many of a bucket; None: it is no longer known to its owner."""
        self._count(bucket.limit, self.holdings.pop(bucket, None), -1)
        self._count(bucket.limit, holding, 1)
        if holding is not None:
            self.holdings[bucket] = holding
        else:
            self._lately.pop(bucket, None)

    def lately(self, bucket: Bucket, now: float, *, of_calls: bool) -> Lately:
        """What was lately of a bucket."""
        found = self._lately.get(bucket)
        if found is None:
            idle = IDLE_SECONDS_OF_CALLS if of_calls else IDLE_SECONDS
            found = self._lately[bucket] = Lately(now, idle)
        return found

    def heard(self, bucket: Bucket, returned: int) -> None:
        """Note how many permits the owner of a bucket knows to be given back."""
        found = self._lately.get(bucket)
        if found is not None:
            found.heard = max(found.heard, returned)

    def touch_some(self, most: int) -> None:
        """Look at so many of the buckets held, at most; at the others in the next calls."""
        if not self._to_look:
            self._to_look = list(self.holdings)
        some = self._to_look[-most:]
        del self._to_look[-most:]
        self.touched |= dict.fromkeys(bucket for bucket in some if bucket in self.holdings)

    def take_touched(self) -> Iterator[Bucket]:
        """Yield the buckets to look at; those that the caller does not reach stay."""
        while self.touched:
            bucket = next(iter(self.touched))
            del self.touched[bucket]
            yield bucket

    def _count(self, limit: str, holding: Holding | None, sign: int) -> None:
        if holding is not None:
            self.held[limit] += sign * holding.held
            self.wanted[limit] += sign * holding.want
