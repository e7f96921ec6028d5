"""Gives turns to send: tenants take turns, and so do the endpoints of each tenant.

An endpoint is in the rotation while it may have something to send now, or asleep until a time. It
is in neither while the sender has as many of its rows as it may.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from heapq import heapify, heappop, heappush
from itertools import count

from streams.delivery.in_flight import EndpointId

_STALE = 100
"""How many outdated times to wake may be kept, beyond as many as there are valid ones."""


class Rotation:
    """The endpoints of one partition that have, or will have, something to send."""

    def __init__(self) -> None:
        self._tenants: OrderedDict[str, deque[EndpointId]] = OrderedDict()
        self._waiting: set[EndpointId] = set()  # all places in `_tenants`
        self._asleep: list[tuple[int, int, EndpointId]] = []
        self._wakes: dict[EndpointId, int] = {}
        self._ties = count()

    def __len__(self) -> int:
        """How many entries it holds, stale ones too."""
        return len(self._waiting) + len(self._asleep)

    def wake(self, place: EndpointId) -> None:
        """Give the endpoint its turn, at the end of its tenant's."""
        self._wakes.pop(place, None)
        if place not in self._waiting:
            self._waiting.add(place)
            self._tenants.setdefault(place[0], deque()).append(place)

    def sleep(self, place: EndpointId, until: int) -> None:
        """Give the endpoint its turn at a time in milliseconds; an earlier such time stands."""
        if place not in self._waiting and until < self._wakes.get(place, until + 1):
            self._wakes[place] = until
            heappush(self._asleep, (until, next(self._ties), place))
            if len(self._asleep) > 2 * len(self._wakes) + _STALE:
                self._drop_stale()

    def rests(self, until: int) -> bool:
        """Whether nobody waits for a turn, and nobody wakes until a time in milliseconds."""
        return not self._waiting and (not self._asleep or self._asleep[0][0] > until)

    def turns(self, now: int, most: int | None = None) -> list[EndpointId]:
        """Each waiting endpoint once: the first of every tenant, then the second of each, ...

        All of them, or the first `most`, leave it; give back those that have more to send.
        """
        while self._asleep and self._asleep[0][0] <= now:
            until, _, place = heappop(self._asleep)
            if self._wakes.get(place) == until:
                del self._wakes[place]
                self._waiting.add(place)
                self._tenants.setdefault(place[0], deque()).append(place)
        return self._round(len(self._waiting) if most is None else most) if self._tenants else []

    def _drop_stale(self) -> None:
        self._asleep = [(until, next(self._ties), place) for place, until in self._wakes.items()]
        heapify(self._asleep)

    def _round(self, most: int) -> list[EndpointId]:
        order: list[EndpointId] = []
        tenants = self._tenants
        while tenants and len(order) < most:
            tenant_id, places = tenants.popitem(last=False)
            order.append(places.popleft())
            if places:
                tenants[tenant_id] = places
        self._waiting.difference_update(order)
        return order
