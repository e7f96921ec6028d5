"""The owner of permits: hands out the places of shared limits to the partitions that ask.

Which partition owns a bucket follows from a hash of it. Everything that the owner knows is in its
rows. It also remembers at which buckets it has to look again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import ClassVar

from streams.dispatcher import permit_rows
from streams.dispatcher.claims_of_limits import check
from streams.dispatcher.part import AT_ONCE, Part
from streams.dispatcher.shared import Shared
from streams.dispatcher.silence import Silence
from streams.dispatcher.step import Step
from streams.limits.buckets import Bucket
from streams.limits.sharing import (
    TURN_MS,
    Share,
    claimed,
    is_contended,
    shared_out,
    turns,
)
from streams.runtime.part import reads
from streams.runtime.processor import Context, Record
from streams.runtime.undo_log import put_back
from streams.serde.codec import LIMIT_CLAIM, LIMIT_GRANT
from streams.serde.records import LimitClaim, LimitGrant

TOPIC = "limits.grants"
_MOST = 2_000
"""So many buckets are loaded at once, at most."""


class PermitOwners(Part):
    """The buckets that one partition owns."""

    keys: ClassVar = permit_rows.KEYS_OF_OWNER
    initiates_early = True  # other partitions wait for it

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        buckets = shared.queue.limited.caps.buckets
        self._limits = buckets.limits
        self._are_several = len(buckets.shared) > 1
        self._to_share: dict[Bucket, set[int]] = {}  # with the holders to be answered
        self._contended: dict[Bucket, None] = {}
        self._turned_at = float("-inf")
        self._silence = Silence(TOPIC)

    def restoring(self, ctx: Context) -> Iterator[None]:
        """Look at every bucket: its cap may be another one now."""
        self._turned_at = ctx.monotonic
        buckets = permit_rows.owned(ctx.store("parts"))
        while found := list(islice(buckets, _MOST)):
            self._to_share |= {bucket: set[int]() for bucket in found}
            yield

    @reads("limits.claims")
    def claimed(self, step: Step, record: Record) -> None:
        """Note what a partition wants and gives back."""
        claim = LIMIT_CLAIM.decode(record.value)
        check(claim, self.topology)
        if not claim.incarnation:  # it is for starts (`start_owners`)
            return
        bucket = Bucket(claim.limit, "", claim.key)
        known = permit_rows.share(step.store, bucket, claim.holder)
        told = Share(claim.incarnation, claim.number, claim.granted, claim.returned, claim.want)
        share = claimed(known, told)
        if share is None:
            return
        permit_rows.give(step.store, bucket, claim.holder, share)
        owed = {claim.holder} if _is_owed(claim, known, share) else set[int]()
        self._look_at(step, bucket, owed)

    def rests(self) -> bool:
        """Whether no bucket is to be shared out."""
        return not self._to_share

    def initiate(self, step: Step) -> Iterator[None]:
        """Share out the buckets that changed, and those for which partitions take turns."""
        if self._silence.holds(step.monotonic):
            return
        if self._contended and step.monotonic >= self._turned_at + TURN_MS / 1000:
            self._turned_at = step.monotonic
            for bucket in self._contended:
                self._to_share.setdefault(bucket, set())
        for bucket in list(islice(self._to_share, AT_ONCE)):
            yield from self._share_out(step, bucket)

    def refused(self, step: Step, topic: str, key: str, detail: str, missing: bool) -> None:
        """Grant nothing for a while, because the broker takes no grants."""
        self._silence.refused(topic, step.monotonic)

    def _look_at(self, step: Step, bucket: Bucket, owed: set[int]) -> None:
        before = self._to_share.get(bucket)
        step.on_undo(put_back, self._to_share, bucket, before)
        self._to_share[bucket] = owed | (before or set())

    def _share_out(self, step: Step, bucket: Bucket) -> Iterator[None]:
        """Give and recall permits of one bucket, and forget who neither holds nor wants any."""
        owed = self._to_share.pop(bucket)
        step.on_undo(put_back, self._to_share, bucket, owed)
        shares = permit_rows.shares(step.store, bucket)
        cap = self._cap(bucket)
        turn = turns(permit_rows.bucket_key(bucket), are_several=self._are_several)
        changed = {} if cap is None else shared_out(shares, cap, step.now, turn)
        shares |= changed
        self._contended.pop(bucket, None)
        if cap is not None and is_contended(shares):
            self._contended[bucket] = None
        over = {holder for holder, share in shares.items() if share.is_over}
        for holder in sorted(over | (changed.keys() | owed) & shares.keys()):
            given = None if holder in over else shares[holder]
            permit_rows.give(step.store, bucket, holder, given)
            self._send(step, bucket, holder, shares[holder])
        yield

    def _cap(self, bucket: Bucket) -> int | None:
        """How many permits a bucket has; None if this process knows no such shared limit."""
        limit = self._limits.get(bucket.limit)
        return limit.concurrency if limit is not None and limit.is_shared else None

    def _send(self, step: Step, bucket: Bucket, holder: int, share: Share) -> None:
        grant = LimitGrant(
            bucket.limit,
            bucket.key,
            share.incarnation,
            share.number,
            share.granted,
            share.returned,
            share.target,
        )
        key = permit_rows.bucket_key(bucket)
        step.ctx.forward(TOPIC, key, LIMIT_GRANT.encode(grant), partition=holder)


def _is_owed(claim: LimitClaim, known: Share | None, share: Share) -> bool:
    """Whether a claim is answered although nothing is granted or recalled."""
    if known is None and share.outstanding > 0:  # its holder may know of none
        return True
    is_repeated = known is not None and share == replace(known, number=share.number)
    return is_repeated or share.is_over or claim.granted < share.granted
