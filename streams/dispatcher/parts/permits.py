"""The holder of permits: asks the owners of shared limits for them, and gives them back.

What is held is a row that changes in the transaction of the claim or the grant, and the jobs that
run on it are counted from their own rows. So a partition never runs more than it holds, whoever
owns it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import ClassVar

from streams.dispatcher import metrics, permit_rows
from streams.dispatcher.claims_of_limits import TOPIC
from streams.dispatcher.part import AT_ONCE, Part
from streams.dispatcher.permit_demand import Demand
from streams.dispatcher.shared import Shared
from streams.dispatcher.silence import Silence
from streams.dispatcher.step import Step
from streams.limits.buckets import Bucket
from streams.limits.permits import Holding
from streams.runtime.part import reads
from streams.runtime.processor import Context, Record
from streams.serde.codec import LIMIT_CLAIM, LIMIT_GRANT
from streams.serde.ids import owner_of
from streams.serde.records import LimitClaim

_LOOK_SECONDS = 0.1
_MOST = 2_000
"""So many buckets are looked at in one step, at most."""


class HeldPermits(Part):
    """The permits of one partition."""

    keys: ClassVar = permit_rows.KEYS_OF_HOLDER

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._limited = shared.queue.limited
        self._permits = shared.queue.limited.caps.permits
        self._looked_at = float("-inf")
        self._silence = Silence(TOPIC)

    def restoring(self, ctx: Context) -> Iterator[None]:
        """Go on with what an earlier owner of the partition held."""
        rows = permit_rows.holdings(ctx.store("parts"))
        while found := list(islice(rows, _MOST)):
            self._permits.restored(found)
            yield

    @reads("limits.grants")
    def granted(self, step: Step, record: Record) -> None:
        """Take what an owner grants, or end a holding that it has forgotten."""
        grant = LIMIT_GRANT.decode(record.value)
        if not grant.incarnation:  # it is of starts (`starts`)
            return
        bucket = Bucket(grant.limit, "", grant.key)
        holding = self._permits.holdings.get(bucket)
        self._permits.touched[bucket] = None
        if holding is None:
            if grant.granted > grant.returned:  # the owner knows more than there is: tell it
                self._hold(step, bucket, self._begun(step))
        elif grant.incarnation == holding.incarnation:
            is_over = holding.is_over(grant.number, grant.granted, grant.returned)
            told = None if is_over else holding.told(grant.granted, grant.target)
            self._hold(step, bucket, told)
            self._permits.heard(bucket, grant.returned)
            self._limited.look_at(bucket)

    def rests(self) -> bool:
        """Whether nothing is to be given back or asked for soon."""
        holdings = self._permits.holdings.items()
        used = self._limited.caps.running
        return not self._permits.touched and all(h.held == used(b) and h.held for b, h in holdings)

    def tick(self, step: Step) -> None:
        """Show how many permits are held and wanted of each shared limit, over all its values."""
        partition = str(self.shared.partition)
        for limit in self._limited.caps.buckets.shared:
            metrics.PERMITS_HELD.labels(partition, limit).set(self._permits.held[limit])
            metrics.PERMITS_WANTED.labels(partition, limit).set(self._permits.wanted[limit])

    def closed(self) -> None:
        """Drop the partition's gauges, since another process owns the partition now."""
        for limit in self._limited.caps.buckets.shared:
            for gauge in (metrics.PERMITS_HELD, metrics.PERMITS_WANTED):
                gauge.remove(str(self.shared.partition), limit)

    def initiate(self, step: Step) -> Iterator[None]:
        """Send claims, where something changed, and from time to time for all that is held."""
        if self._silence.holds(step.monotonic):
            return
        is_time = step.monotonic >= self._looked_at + _LOOK_SECONDS
        shares = self._limited.caps.buckets.shared
        if not (self._permits.touched or (is_time and (shares or self._permits.holdings))):
            return
        demand = Demand(self.shared.queue, self.shared.workers)
        if is_time:
            self._looked_at = step.monotonic
            self._permits.touch_some(_MOST // 2)  # so that new ones need not wait for all
            self._permits.touched.update(dict.fromkeys(demand.of_types()))
        yield from self._claims(step, demand)

    def refused(self, step: Step, topic: str, key: str, detail: str, missing: bool) -> None:
        """Ask for nothing for a while, because the broker takes no claims."""
        self._silence.refused(topic, step.monotonic)

    def _claims(self, step: Step, demand: Demand) -> Iterator[None]:
        sent = 0
        for looked, bucket in enumerate(self._permits.take_touched(), start=1):
            claim = self._claim(step, demand, bucket)
            if claim is not None:
                step.on_undo(self._permits.touched.setdefault, bucket)
                self._hold(step, bucket, claim)
                self._send(step, bucket, claim)
                sent += 1
                yield
            if sent == AT_ONCE or looked == _MOST:
                return

    def _claim(self, step: Step, demand: Demand, bucket: Bucket) -> Holding | None:
        """What is held of a bucket with the claim that is due; None: none is."""
        wanted = demand.of(bucket)
        holding = self._permits.holdings.get(bucket)
        if holding is None:
            return self._begun(step).claims(wanted) if wanted else None
        used, kept = self._used(bucket), demand.kept[bucket]
        limit = self._limited.caps.buckets.limits.get(bucket.limit)
        of_calls = limit is not None and limit.counts_calls
        lately = self._permits.lately(bucket, step.monotonic, of_calls=of_calls)
        lately.saw(wanted)
        less = lately.after_a_while(holding, used, wanted, kept, step.monotonic)
        found = holding.at_once(used, wanted, kept) or less
        if found is None and lately.repeats(holding, step.monotonic):
            found = holding.claims(wanted)
        if found is not None:
            lately.claimed_at = step.monotonic
        return found

    def _used(self, bucket: Bucket) -> int:
        """How many permits running jobs need; none of a limit that is not shared any more."""
        caps = self._limited.caps
        return caps.running(bucket) if bucket.limit in caps.buckets.shared else 0

    def _begun(self, step: Step) -> Holding:
        return Holding(permit_rows.next_incarnation(step.store, step.now))

    def _hold(self, step: Step, bucket: Bucket, holding: Holding | None) -> None:
        step.on_undo(self._permits.set, bucket, self._permits.holdings.get(bucket))
        self._permits.set(bucket, holding)
        permit_rows.hold(step.store, bucket, holding)

    def _send(self, step: Step, bucket: Bucket, holding: Holding) -> None:
        claim = LimitClaim(
            bucket.limit,
            bucket.key,
            self.shared.partition,
            holding.incarnation,
            holding.number,
            holding.want,
            holding.granted,
            holding.returned,
        )
        owner = owner_of(bucket.limit, bucket.key, self.topology.topics[TOPIC].partitions)
        key = permit_rows.bucket_key(bucket)
        step.ctx.forward(TOPIC, key, LIMIT_CLAIM.encode(claim), partition=owner)
