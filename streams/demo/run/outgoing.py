"""The customers' side of outgoing webhooks in a run: endpoints, their receivers, what befalls them.

The endpoint `RESTARTED` has a receiver of its own, because only that one goes down.
"""

from __future__ import annotations

import time
from collections.abc import Collection

from streams.demo.run.operator_api import OperatorApi
from streams.demo.run.waiting import until
from streams.demo.verdict.deliveries import owed
from streams.demo.verdict.report import Report
from streams.demo.verdict.topic_recorder import TopicRecorder
from streams.demo.world.receiver import Hook, Receiver
from streams.demo.world.scenario import Scenario
from streams.demo.world.subscribers import CALLBACKS, RESTARTED, SWITCHED_OFF, Subscriber
from streams.serde.delivery_states import PENDING

_TAKEN_FIRST = 2
"""How many messages an endpoint takes before it is disturbed, so that more are still to come."""
_NOTICED_SECONDS = 120.0
"""How long an endpoint may take to get its messages, or to fail; a busy machine begins late."""
_STALLED_SECONDS = 45.0
"""How long nothing may move; a circuit that opened by accident closes within it."""


class Outgoing:
    """Receivers of one run; `receiver` serves every endpoint but the restarted one."""

    def __init__(
        self, scenario: Scenario, api: OperatorApi, topics: TopicRecorder, report: Report
    ) -> None:
        self._subscribers = {each.place: each for each in scenario.subscribers}
        self._api = api
        self._topics = topics
        self._report = report
        self.receiver = Receiver(scenario.subscribers)
        self._restarted = Receiver(scenario.subscribers)

    @property
    def hooks(self) -> tuple[Hook, ...]:
        """Every request that the receivers got."""
        return self.receiver.hooks + self._restarted.hooks

    @property
    def callback_url(self) -> str:
        return self.receiver.url(CALLBACKS)

    async def open(self) -> None:
        await self.receiver.start()
        await self._restarted.start()

    async def close(self) -> None:
        await self.receiver.stop()
        await self._restarted.stop()

    async def set_endpoints(self) -> None:
        """Set every endpoint, before the first event that it has to get."""
        for subscriber in self._subscribers.values():
            await self._set(subscriber, enabled=subscriber.enabled)
        self._report.phase(f"{len(self._subscribers)} endpoints of outgoing webhooks are set")

    async def disturb(self) -> None:
        """Stop a receiver until an attempt has failed at it, and disable an endpoint for good."""
        if await until(lambda: self._took(RESTARTED), _NOTICED_SECONDS):
            await self._restart()
        if await until(lambda: self._took(SWITCHED_OFF), _NOTICED_SECONDS):
            await self._set(self._subscribers[SWITCHED_OFF], enabled=False)
            self._report.phase(f"disabled the endpoint {'/'.join(SWITCHED_OFF)}")

    async def all_ended(self, called_back: Collection[str]) -> list[str]:
        """The deliveries that have not ended once nothing moves any more; empty if all have.

        Call it when every job has ended; `called_back` are the jobs with a `callback_url`.
        """
        await self._topics.to_end()
        events, jobs = self._topics.records.events, self._topics.records.jobs
        wanted = owed(
            self._subscribers.values(),
            (s.value for s in events),
            (s.value for s in jobs),
            called_back,
        )
        rows, attempts = self._topics.rows, self._topics.records.attempts
        left, moved, since = set(wanted), 0, time.monotonic()

        def ended() -> bool:
            nonlocal left, moved, since
            left = {p for p in left if p not in rows or rows[p].status == PENDING}
            if len(attempts) != moved:
                moved, since = len(attempts), time.monotonic()
            self._report.progress(lambda: f"{len(left):,} outgoing deliveries are pending")
            return not left or time.monotonic() - since > _STALLED_SECONDS

        while not await until(ended, _STALLED_SECONDS):
            pass
        return [f"the delivery {'/'.join(place)} is pending" for place in sorted(left)]

    async def _restart(self) -> None:
        await self._restarted.stop()
        before, name = len(self._topics.records.attempts), "/".join(RESTARTED)
        self._report.phase(f"stopped the receiver of {name} until an attempt fails at it")
        noticed = await until(lambda: self._failed_since(before), _NOTICED_SECONDS)
        await self._restarted.start()
        if noticed:
            self._report.phase(f"started the receiver of {name} again")

    def _failed_since(self, before: int) -> bool:
        return any(
            (seen.value.tenant_id, seen.value.endpoint_id) == RESTARTED and seen.value.error
            for seen in self._topics.records.attempts[before:]
        )

    def _took(self, endpoint: tuple[str, str]) -> bool:
        of_it = (h for h in self.hooks if (h.tenant_id, h.endpoint_id) == endpoint and h.taken)
        return sum(1 for _ in of_it) >= _TAKEN_FIRST

    async def _set(self, subscriber: Subscriber, *, enabled: bool) -> None:
        receiver = self._restarted if subscriber.place == RESTARTED else self.receiver
        body = subscriber.body(receiver.url(subscriber.place), enabled=enabled)
        await self._api.set_endpoint(*subscriber.place, body)
