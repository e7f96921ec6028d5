"""The owner of starts of shared rates: grants as many as a rate has, on its own clock.

What was spent is kept like that of a rate of one partition (`limit_rows`), in the transaction of
the grant.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from streams.dispatcher import limit_rows, permit_rows
from streams.dispatcher.claims_of_limits import check
from streams.dispatcher.part import AT_ONCE, Part
from streams.dispatcher.shared import Shared
from streams.dispatcher.silence import Silence
from streams.dispatcher.step import Step
from streams.limits.buckets import Bucket
from streams.limits.budgets import ANSWER_SECONDS
from streams.limits.token_lines import TokenLines
from streams.runtime.part import reads
from streams.runtime.processor import Record
from streams.runtime.undo_log import put_back
from streams.serde.codec import LIMIT_CLAIM, LIMIT_GRANT
from streams.serde.records import LimitGrant

TOPIC = "limits.grants"


class _Wish(NamedTuple):
    """What a partition asks for; without a turn it gets what is left over."""

    number: int
    tokens: int
    has_turn: bool


class StartOwners(Part):
    """The rates that one partition owns."""

    initiates_early = True  # other partitions wait for it

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._limited = shared.queue.limited
        caps = self._limited.caps
        self._rates, self._shared_rates = caps.rates, caps.buckets.shared_rates
        self._lines = TokenLines()
        self._wishes: dict[tuple[Bucket, int], _Wish] = {}
        self._silence = Silence(TOPIC)

    @reads("limits.claims")
    def asked(self, step: Step, record: Record) -> None:
        """Note what a partition asks for, unless it could not use it in time."""
        claim = LIMIT_CLAIM.decode(record.value)
        check(claim, self.topology)
        is_late = step.now - record.timestamp > ANSWER_SECONDS * 1000
        if claim.incarnation or is_late or claim.limit not in self._shared_rates:
            return
        place = Bucket(claim.limit, "", claim.key), claim.holder
        step.on_undo(put_back, self._wishes, place, self._wishes.get(place))
        self._wishes[place] = _Wish(claim.number, claim.tokens, has_turn=claim.want > 0)

    def rests(self) -> bool:
        """Whether everybody has an answer."""
        return not self._wishes

    def initiate(self, step: Step) -> Iterator[None]:
        """Answer each partition that asked."""
        if self._silence.holds(step.monotonic):
            return
        for place in list(islice(self._wishes, AT_ONCE)):
            wish = self._wishes.pop(place)
            step.on_undo(put_back, self._wishes, place, wish)
            self._answer(step, *place, wish)
            yield

    def refused(self, step: Step, topic: str, key: str, detail: str, missing: bool) -> None:
        """Grant nothing for a while, because the broker takes no grants."""
        self._silence.refused(topic, step.monotonic)

    def _answer(self, step: Step, bucket: Bucket, holder: int, wish: _Wish) -> None:
        now = step.monotonic
        there = int(self._rates.tokens(bucket, now))
        tokens = self._lines.share(bucket, holder, wish.tokens, there, now)
        for _ in range(tokens):
            arrival = self._rates.spend(bucket, now, "", step.on_undo)
            limit_rows.put(step.store, bucket, step.now + round((arrival - now) * 1000))
        self._limited.tokens.spent += tokens
        if tokens:
            self._lines.served(bucket, holder)
        wait = self._wait(bucket, holder, now, wish) if tokens < wish.tokens else 0.0
        answer = 0, wish.number, 0, 0, 0, tokens, max(1, round(wait * 1000)) if wait else 0
        grant = LimitGrant(bucket.limit, bucket.key, *answer)
        key = permit_rows.bucket_key(bucket)
        step.ctx.forward(TOPIC, key, LIMIT_GRANT.encode(grant), partition=holder)

    def _wait(self, bucket: Bucket, holder: int, now: float, wish: _Wish) -> float:
        """When a partition that got too little is to ask again, in seconds."""
        lines, next_at = self._lines, self._rates.next_token_at(bucket) or now
        when = lines.wait if wish.has_turn else lines.left_over_in
        return when(bucket, holder, self._rates.paces[bucket.limit], next_at, now)
