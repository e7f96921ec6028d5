"""What the demo sends: ticket events of three tenants whose ids collide in every way they can.

Ticket numbers, the vendor's event ids and the kinds of ticket are the same for every tenant; only
the route and the signature distinguish them. One in four bodies names another tenant.
"""

from __future__ import annotations

import random
import secrets
import uuid
from dataclasses import dataclass, field
from functools import cached_property

import orjson

from streams.demo.world.subscribers import Subscriber, subscribers

TENANTS = ("acme", "globex", "initech")
SOURCE = "zendesk"
EVENT_TYPE = "ticket.created"
JOB_TYPE = "draft_reply"
DELAYED_TYPE = "follow_up"
DELAYED_TICKET = "follow-up-1"
DELAYED_TENANT = TENANTS[0]
DELAY_SECONDS = 6.0

CAPPED_TENANT = "initech"
CAP = 8
"""How many jobs of that tenant run at once, as in `topology.yaml` beside this file."""

_OPENING = CAP + 2
"""How many tickets of the capped tenant come first and at once, so that its cap takes effect."""

LEAST_EVENTS = 30
"""With fewer events, not every tenant gets every kind of ticket."""

_EVENT_IDS = uuid.UUID("6d1b7a52-7a63-4ab0-9a0f-1c3a8f0e9d11")
_TOGETHER = 0.2


@dataclass(frozen=True, slots=True)
class Ticket:
    """One event of the vendor; only its tenant's tickets contain the text `marker`."""

    tenant_id: str
    number: int
    marker: str
    named: str | None
    poison: bool

    @property
    def external_id(self) -> str:
        return str(self.number)

    @property
    def vendor_event_id(self) -> str:
        """The vendor's id, which is equal for the same number of every tenant."""
        return str(uuid.uuid5(_EVENT_IDS, self.external_id))

    @property
    def refund(self) -> bool:
        return self.number % 5 == 0

    @property
    def flaky(self) -> bool:
        """Whether its first attempt fails *after* its effects; the next must not repeat them."""
        return self.number % 7 == 3 and not self.poison

    @property
    def actions(self) -> frozenset[str]:
        """The side effects that its job has when it succeeds."""
        if self.poison:
            return frozenset()
        return frozenset({"email:send", "payment:refund"} if self.refund else {"email:send"})

    def body(self) -> bytes:
        """A ticket event as Zendesk's event subscriptions send it."""
        tags = [tag for tag in ("refund", "flaky", "poison") if getattr(self, tag)]
        detail: dict[str, object] = {
            "id": self.external_id,
            "subject": f"Ticket {self.number}",
            "description": f"My order is late. {self.marker}",
            "requester_email": f"customer-{self.number}@example.com",
            "status": "OPEN",
            "tags": tags,
            "updated_at": "2026-11-20T09:00:00Z",
        }
        if self.named:
            detail |= {"tenant_id": self.named, "brand": {"tenant": self.named}}
        event: dict[str, object] = {
            "account_id": 90001,
            "id": self.vendor_event_id,
            "type": f"zen:event-type:{EVENT_TYPE}",
            "time": "2026-11-20T09:00:00Z",
            "subject": f"zen:ticket:{self.external_id}",
            "detail": detail,
            "event": {},
            "zendesk_event_version": "2022-11-06",
        }
        if self.named:
            event |= {"tenant_id": self.named, "tenant": self.named}
        return orjson.dumps(event)


@dataclass(frozen=True)
class Scenario:
    """Everything that is decided before the first request."""

    seed: int
    redeliveries: int
    tickets: tuple[Ticket, ...]
    markers: dict[str, str]
    secrets: dict[str, bytes] = field(
        default_factory=lambda: {t: secrets.token_hex(24).encode() for t in TENANTS}, repr=False
    )

    subscribers: tuple[Subscriber, ...] = field(default_factory=subscribers)

    @property
    def deliveries(self) -> int:
        return len(self.tickets) * self.redeliveries

    @cached_property
    def volleys(self) -> tuple[tuple[Ticket, ...], ...]:
        """The deliveries in their order; those of one volley are sent at the same moment.

        The first volley is a rush on the capped tenant. The others come shuffled, and some of them
        contain all deliveries of one event.
        """
        rng = random.Random(self.seed)  # noqa: S311 - an order that can be repeated, no secret
        volleys: list[tuple[Ticket, ...]] = []
        rush = [t for t in self.tickets if t.tenant_id == CAPPED_TENANT][:_OPENING]
        for ticket in self.tickets:
            times = self.redeliveries - (ticket in rush)
            if rng.random() < _TOGETHER:
                volleys.append((ticket,) * times)
            else:
                volleys.extend([(ticket,)] * times)
        rng.shuffle(volleys)
        return (tuple(rush), *volleys)


def compose(events: int, redeliveries: int, seed: int) -> Scenario:
    """The scenario of this many distinct events, each delivered `redeliveries` times."""
    markers = {tenant: f"marker-{secrets.token_hex(8)}" for tenant in TENANTS}
    tickets = []
    for index in range(events):
        tenant, number = TENANTS[index % len(TENANTS)], index // len(TENANTS) + 1
        others = [other for other in TENANTS if other != tenant]
        tickets.append(
            Ticket(
                tenant_id=tenant,
                number=number,
                marker=markers[tenant],
                named=others[number % 2] if number % 4 == 1 else None,
                poison=(tenant, number) == (TENANTS[0], 2),
            )
        )
    return Scenario(seed, redeliveries, tuple(tickets), markers)
