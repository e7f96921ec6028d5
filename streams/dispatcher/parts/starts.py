"""The holder of starts of shared rates: asks their owners, and hears what they grant."""

from __future__ import annotations

from collections.abc import Iterator

from streams.dispatcher import permit_rows
from streams.dispatcher.claims_of_limits import TOPIC
from streams.dispatcher.part import AT_ONCE, Part
from streams.dispatcher.permit_demand import Demand
from streams.dispatcher.shared import Shared
from streams.dispatcher.silence import Silence
from streams.dispatcher.step import Step
from streams.limits.buckets import Bucket
from streams.runtime.part import reads
from streams.runtime.processor import Record
from streams.serde.codec import LIMIT_CLAIM, LIMIT_GRANT
from streams.serde.ids import owner_of
from streams.serde.records import LimitClaim

_LOOK_SECONDS = 0.1


class GrantedStarts(Part):
    """The starts of one partition; nothing of them is kept."""

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._limited = shared.queue.limited
        self._budgets = shared.queue.limited.caps.budgets
        self._has_rates = bool(shared.queue.limited.caps.buckets.shared_rates)
        self._looked_at = float("-inf")
        self._silence = Silence(TOPIC)

    @reads("limits.grants")
    def granted(self, step: Step, record: Record) -> None:
        """Take the starts that an owner grants, for as long as they hold."""
        grant = LIMIT_GRANT.decode(record.value)
        if grant.incarnation:
            return
        bucket, wait = Bucket(grant.limit, "", grant.key), grant.wait_ms / 1000
        answer = grant.number, grant.tokens, wait, step.monotonic, step.on_undo
        if self._budgets.granted(bucket, *answer):
            self._limited.look_at(bucket)

    def rests(self) -> bool:
        """Whether nothing is asked for."""
        return not self._budgets.are_open

    def initiate(self, step: Step) -> Iterator[None]:
        """Ask for starts where jobs wait for them."""
        if not self._has_rates or self._silence.holds(step.monotonic):
            return
        is_time = step.monotonic >= self._looked_at + _LOOK_SECONDS
        if not (is_time or self._budgets.touched):
            return
        demand = Demand(self.shared.queue, self.shared.workers)
        buckets = set(self._budgets.touched)
        self._budgets.touched.clear()
        if is_time:
            self._looked_at = step.monotonic
            self._budgets.forget(step.monotonic)
            buckets |= demand.buckets()
        yield from self._ask(step, demand, buckets)

    def refused(self, step: Step, topic: str, key: str, detail: str, missing: bool) -> None:
        """Ask for nothing for a while, because the broker takes no claims."""
        self._silence.refused(topic, step.monotonic)

    def _ask(self, step: Step, demand: Demand, buckets: set[Bucket]) -> Iterator[None]:
        sent, now = 0, step.monotonic
        for bucket in buckets:
            at_once, lacks_worker = demand.starts_of(bucket)
            how = self._budgets.how(bucket, now, at_once=at_once > 0)
            tokens = self._budgets.lacks(bucket, at_once or int(lacks_worker), now, how)
            if not tokens:
                continue
            number = self._budgets.ask(bucket, tokens, now, how, step.now, step.on_undo)
            self._send(step, bucket, number, 0 if how == "left_over" else tokens, tokens)
            sent += 1
            yield
            if sent == AT_ONCE:  # the others follow at the next look
                return

    def _send(self, step: Step, bucket: Bucket, number: int, want: int, tokens: int) -> None:
        partition = self.shared.partition
        claim = LimitClaim(bucket.limit, bucket.key, partition, 0, number, want, 0, 0, tokens)
        owner = owner_of(bucket.limit, bucket.key, self.topology.topics[TOPIC].partitions)
        key = permit_rows.bucket_key(bucket)
        step.ctx.forward(TOPIC, key, LIMIT_CLAIM.encode(claim), partition=owner)
