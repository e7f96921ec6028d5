"""A flood of deliveries in the background: new and repeated keys, of every partition at once."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from typing import Any, Self

from confluent_kafka import KafkaError, Message, Producer

from streams.serde.codec import ENVELOPE
from streams.serde.ids import fingerprint, new_id, partition_for
from streams.serde.records import Envelope, PayloadRef

TENANTS = 24
_TICK_SECONDS = 0.02
_NEW = 0.6
_MOST_UNSENT = 20_000
"""While the broker is away, what waits is bounded; so is the work left when it comes back."""


class Flood:
    """Sends `rate` deliveries a second to a topic until `finish`.

    `times` is how often each fingerprint was sent, which is known once it is finished.
    The same seed gives the same keys in the same order. Tenants share their dedup keys.
    """

    def __init__(
        self, client: dict[str, Any], topic: str, partitions: int, seed: int, rate: int = 1_000
    ) -> None:
        self.times: Counter[bytes] = Counter()
        self._topic = topic
        self._partitions = partitions
        self._random = random.Random(seed)
        self._each_tick = max(1, round(rate * _TICK_SECONDS))
        self._events = 0
        self._refused: list[str] = []
        self._finished = threading.Event()
        self._thread = threading.Thread(target=self._run, name="flood", daemon=True)
        once = {"acks": "all", "enable.idempotence": True, "linger.ms": 5, "log_level": 0}
        self._producer = Producer({**client, **once})
        covered = {partition_for(_tenant(n), partitions) for n in range(TENANTS)}
        assert len(covered) == partitions, "every partition has a tenant"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._finished.set()
        self._thread.join(30)

    def wait(self, seconds: float) -> None:
        """Let it flow for a time."""
        assert not self._finished.wait(seconds), "the flood has ended"

    def finish(self) -> Counter[bytes]:
        """Stop, and wait until the broker has it all; how often each fingerprint was sent."""
        self._finished.set()
        self._thread.join(30)
        assert not self._thread.is_alive(), "the flood does not end: its counts are not final"
        assert self._producer.flush(60) == 0, "the flood could not be delivered"
        assert not self._refused, self._refused
        return self.times

    def _run(self) -> None:
        while not self._finished.wait(_TICK_SECONDS):
            if len(self._producer) < _MOST_UNSENT:
                for _ in range(self._each_tick):
                    self._send(self._choose())
            self._producer.poll(0)

    def _choose(self) -> int:
        """A new event, or one sent before."""
        if not self._events or self._random.random() < _NEW:
            self._events += 1
            return self._events - 1
        return self._random.randrange(self._events)

    def _send(self, event: int) -> None:
        delivered = delivery(event)
        self.times[delivered.fingerprint] += 1
        self._producer.produce(
            self._topic,
            ENVELOPE.encode(delivered),
            delivered.tenant_id.encode(),
            partition_for(delivered.tenant_id, self._partitions),
            on_delivery=self._answered,
        )

    def _answered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._refused.append(str(error))


def delivery(event: int) -> Envelope:
    """One more delivery of an event."""
    tenant, key = _tenant(event % TENANTS), f"ticket:{event // TENANTS}"
    now = time.time_ns() // 1_000_000
    return Envelope(
        fingerprint(tenant, "zendesk", key),
        new_id("evt"),
        "zendesk",
        tenant,
        "ticket.updated",
        now,
        now,
        b"\7" * 32,
        key,
        key,
        "application/json",
        None,
        None,
        PayloadRef(0, (0,), 100, "kek"),
        {"ticket_id": key},
        "webhook",
    )


def _tenant(number: int) -> str:
    return f"tnt_{number:04d}"
