"""Outgoing deliveries of a run in which everything went as promised."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from streams.demo.verdict.deliveries import owed
from streams.demo.verdict.topic_recorder import Seen
from streams.demo.world.receiver import Hook
from streams.demo.world.scenario import Scenario
from streams.demo.world.subscribers import CALLBACKS, RESTARTED, Place, Subscriber
from streams.serde.delivery_records import Delivery, DeliveryAttempt, DeliveryKind
from streams.serde.delivery_states import DeliveryStatus
from streams.serde.records import Envelope, Job

AT = 1_000_000.0


class HonestDeliveries:
    """Rows, attempts and received requests; a test may change the lists."""

    def __init__(
        self,
        scenario: Scenario,
        events: Sequence[Seen[Envelope]],
        jobs: Sequence[Seen[Job]],
        called_back: Collection[str],
    ) -> None:
        self.rows: list[Seen[Delivery]] = []
        self.attempts: list[Seen[DeliveryAttempt]] = []
        self.hooks: list[Hook] = []
        wanted = owed(
            scenario.subscribers, (s.value for s in events), (s.value for s in jobs), called_back
        )
        for number, (place, subscriber) in enumerate(sorted(wanted.items(), key=lambda w: w[0])):
            self._play(number, place, subscriber)

    def of(self, endpoint_id: str) -> list[Delivery]:
        return [seen.value for seen in self.rows if seen.value.endpoint_id == endpoint_id]

    def change(self, row: Delivery, **changes: Any) -> None:
        """Another newest state of a row."""
        self.rows.append(_seen("deliveries", replace(row, **changes)))

    def _play(self, number: int, place: Place, subscriber: Subscriber) -> None:
        row = _row(number, place)
        self.rows.append(_seen("deliveries", row))
        if not subscriber.enabled:
            self.change(row, status="parked", parked_because="endpoint_disabled")
            return
        failing = subscriber.conduct == "fails" or subscriber.place == RESTARTED
        answers = [400, 400] if subscriber.conduct == "refuses" else [503] * failing + [204]
        for attempt, status in enumerate(answers, 1):
            self.hooks.append(Hook(*place, True, "{}", AT + attempt, status))
            self.attempts.append(_seen("deliveries.attempts", _attempt(row, attempt, status)))
        ended: DeliveryStatus = "delivered" if answers[-1] == 204 else "dead"
        self.change(row, status=ended, attempts=len(answers), last_status=answers[-1])


def _seen(topic: str, value: Any) -> Seen[Any]:
    return Seen(topic, 0, 0, AT, b"", value)


def _row(number: int, place: Place) -> Delivery:
    tenant_id, endpoint_id, message_id = place
    kind: DeliveryKind = "callback" if (tenant_id, endpoint_id) == CALLBACKS else "event"
    return Delivery(
        delivery_id=f"dlv_{number}",
        tenant_id=tenant_id,
        endpoint_id=endpoint_id,
        message_id=message_id,
        kind=kind,
        type="t",
        source="s",
        event_id=None,
        job_id=None,
        status="pending",
        attempts=0,
        round=0,
        next_attempt_at=0,
        parked_because=None,
        last_status=None,
        last_error=None,
        lane=None,
        order=0,
        url=None,
        format="cloudevents",
        mapping=None,
        command_id=None,
        traceparent=None,
        created_at=0,
        updated_at=0,
    )


def _attempt(row: Delivery, number: int, status: int) -> DeliveryAttempt:
    return DeliveryAttempt(
        row.delivery_id,
        row.tenant_id,
        row.endpoint_id,
        row.message_id,
        number,
        0,
        1,
        "127.0.0.1",
        status,
        None if status < 300 else "status",
        "",
        "",
        None,
    )
