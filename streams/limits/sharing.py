"""An owner's permits: how the places of one bucket are shared out among partitions.

`granted` and `returned` are totals, of what the owner gave to a holder and of what it knows to be
given back. Their differences, over all holders, are never more than the cap because of a grant. A
lowered cap takes nothing back: what is returned stays here until the rest fits.

The shares are max-min fair: nobody gets more than it wants, and whoever gets less gets as much as
any other. Where places are left that do not go round, they change hands each turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b

from streams.limits.permits import UNBOUNDED

TURN_MS = 1_000
_MOST_TURNS = 8
Turn = Callable[[int], int]
"""How long the turn lasts that began at a time, in milliseconds."""


@dataclass(frozen=True, slots=True)
class Share:
    """What one partition has of a bucket, as its owner knows.

    `number` is of its newest claim, `want` what that asked for, `target` what it was last told, and
    `since` when it was last given a permit (milliseconds).
    """

    incarnation: int
    number: int
    granted: int
    returned: int
    want: int
    target: int = UNBOUNDED
    since: int = 0

    @property
    def outstanding(self) -> int:
        """How many permits it may hold."""
        return self.granted - self.returned

    @property
    def is_over(self) -> bool:
        """Whether it neither holds nor wants any."""
        return not (self.outstanding or self.want)


Shares = Mapping[int, Share]
"""The holders of a bucket, by their partitions."""


def claimed(share: Share | None, claim: Share) -> Share | None:
    """A share after a claim, which has the holder's own totals; None if the claim is an old one.

    A new incarnation of the holder tells its whole set, which replaces what was known.
    """
    if share is None or claim.incarnation > share.incarnation:
        return claim
    if claim.incarnation < share.incarnation or claim.number <= share.number:
        return None
    totals = {
        "granted": max(share.granted, claim.granted),  # more, if an old claim began the share anew
        "returned": max(share.returned, claim.returned),
    }
    return replace(share, number=claim.number, want=claim.want, **totals)


def fair(wants: list[int], cap: int) -> list[int]:
    """Share a cap by what each wants; the first of the list get the places that do not go round."""
    found, left = [0] * len(wants), max(0, cap)
    open_ = [place for place, want in enumerate(wants) if want > 0]
    while open_ and left:
        level = left // len(open_)
        if not level:
            for place in open_[:left]:
                found[place] += 1
            break
        for place in open_:
            more = min(level, wants[place] - found[place])
            found[place] += more
            left -= more
        open_ = [place for place in open_ if found[place] < wants[place]]
    return found


def shared_out(
    shares: Shares, cap: int, now: int, turn: Turn = lambda _: TURN_MS
) -> dict[int, Share]:
    """The shares that change: who gets more permits, and from whom some are recalled.

    Whoever waits longest for a permit comes first, but one that just got its turn keeps it.
    """
    few = cap < sum(share.want > 0 for share in shares.values())
    order = sorted(shares, key=lambda h: _turn(shares[h], h, now, turn, are_few=few))
    targets = dict(zip(order, fair([shares[h].want for h in order], cap), strict=True))
    free = cap - sum(share.outstanding for share in shares.values())
    given: dict[int, int] = {}
    for holder in sorted(order, key=lambda holder: (shares[holder].since, holder)):
        more = max(0, min(targets[holder] - shares[holder].outstanding, free))
        given[holder] = more
        free -= more
    is_short = free < 0 or any(
        shares[holder].outstanding + given[holder] < targets[holder] for holder in order
    )
    found = {
        holder: _told(shares[holder], given[holder], targets[holder], now, is_short)
        for holder in order
    }
    return {holder: share for holder, share in found.items() if share != shares[holder]}


def turns(name: bytes, *, are_several: bool) -> Turn:
    """Turns of a second; of several shared limits 1 to 8 s, drawn by a bucket's name and the time.

    Two partitions whose jobs need the same two buckets may hold one each. If both changed hands at
    once, they would exchange them for ever.
    """
    most = _MOST_TURNS if are_several else 1
    return lambda since: TURN_MS * (1 + _drawn(name, since) % most)


def is_contended(shares: Shares) -> bool:
    """Whether some holder lacks what it wants."""
    return any(share.outstanding < share.want for share in shares.values())


def _turn(
    share: Share, holder: int, now: int, turn: Turn, *, are_few: bool
) -> tuple[bool, int, int, int]:
    """The order of holders: those that just got a permit keep it, then those that have fewest.

    Of those that have as many, another one loses its place after each time of the longest turns:
    one may need its permits for hours, while those of another lie idle. If there are so few places
    that not each holder gets one, those that have more are among them.
    """
    has_turn = share.outstanding > 0 and share.since <= now < share.since + turn(share.since)
    most_first = -share.outstanding if has_turn else share.outstanding
    if has_turn or not share.outstanding:
        return not has_turn, most_first, share.since, holder
    drawn = _drawn(b"%d" % holder, now // (_MOST_TURNS * TURN_MS))
    return True, 1 if are_few else most_first, drawn, holder


def _drawn(name: bytes, at: int) -> int:
    """A number by lot. No checksum does: those of two names differ alike at all times."""
    return int.from_bytes(blake2b(b"%b %d" % (name, at), digest_size=8).digest(), "big")


def _told(share: Share, more: int, target: int, now: int, is_short: bool) -> Share:
    """A share with its new permits and target; equal if the holder need not hear of it."""
    outstanding = share.outstanding + more
    if is_short and outstanding > target:
        told = target
    elif more or share.target < outstanding:
        told = UNBOUNDED
    else:
        return share
    since = now if more else share.since
    return replace(share, granted=share.granted + more, target=told, since=since)
