"""Stride passes of tenants: they count how often each tenant was served, as long as it matters.

A tenant is in the order while it has jobs that some worker handles and is below its caps. It then
has a pass, and each start adds its stride to it: `START` divided by its weight (Waldspurger and
Weihl, "Stride Scheduling"). So a tenant of weight 3 starts three jobs for one of another. The floor
is the lowest pass in the order or, while no tenant is in the order, the highest pass served so far.
It is never more than the lag below the highest pass, and it only rises. A tenant enters the order
at the floor or at its own earlier pass, whichever is higher, so that no tenant saves up credit
while it is away.

A tenant in the order may still wait for long: for its type's cap, for the workers of its type, or
behind jobs of a higher level. It saves up no credit either, because the start that ends its wait
lifts its pass: its charge counts as at most the lag below the highest pass. The lift happens only
at a start. So a rising floor changes no other tenant's place, and a start costs O(log n). The lag
is `LAG`, or the stride of the tenant that weighs least: a start of that one lifts nobody.

A tenant without waiting or running jobs is forgotten once the floor has reached its pass.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from sortedcontainers import SortedList

if TYPE_CHECKING:
    from streams.fairness.lanes import Lane

START = 1_000
"""What a start of a tenant of weight 1 adds to its pass; whole numbers, which add up exactly."""
LAG = 32 * START
"""At most this many starts in a row, of weight 1, make up for a wait in the order."""
_FORGOTTEN = 64
"""One call forgets at most this many tenants; when the floor rises far, later calls do the rest."""


class Tenant:
    """One tenant's pass, lanes and running jobs in one queue.

    `waiting` counts its lanes and `jobs` the jobs in them; `lanes` are those of types that a worker
    handles. `ordered` is True while the tenant is in the order. Its caps let `room` more jobs
    start; `within_caps` is how many of the waiting jobs these can be. `stride` is what a start adds
    to its pass.
    """

    __slots__ = (
        "departing",
        "id",
        "jobs",
        "lanes",
        "ordered",
        "passes",
        "room",
        "running",
        "stride",
        "waiting",
        "within_caps",
    )

    def __init__(self, id_: str, stride: int) -> None:
        self.id = id_
        self.stride = stride
        self.passes = 0
        self.running = 0
        self.waiting = 0
        self.jobs = 0
        self.lanes: list[Lane] = []
        self.ordered = False
        self.departing = False
        self.room: float = 0
        self.within_caps = 0

    @property
    def charge(self) -> int:
        """The tenant's sort key: its pass, plus a stride for each of its running jobs."""
        return self.passes + self.running * self.stride


class Passes:
    """The tenants of one queue and the floor of their passes."""

    def __init__(self) -> None:
        self.tenants: dict[str, Tenant] = {}
        self._strides: dict[str, int] = {}  # of tenants whose weight is not 1
        self._lag = LAG
        self._floor = 0
        self._highest = 0
        self._order = SortedList()  # passes of the tenants in the order
        self._departed: list[tuple[int, str]] = []  # heap of tenants to forget, by pass

    def of(self, tenant_id: str) -> Tenant:
        """The tenant with this id, created if it is unknown."""
        tenant = self.tenants.get(tenant_id)
        if tenant is None:
            stride = self._strides.get(tenant_id, START)
            tenant = self.tenants[tenant_id] = Tenant(tenant_id, stride)
        return tenant

    def weigh(self, tenant_id: str, weight: float) -> Tenant | None:
        """Set a tenant's weight; the tenant, if it is known here."""
        self._strides.pop(tenant_id, None)
        stride = max(1, round(START / weight))
        self._lag = max(self._lag, stride)
        if stride != START:
            self._strides[tenant_id] = stride
        tenant = self.tenants.get(tenant_id)
        if tenant is not None:
            tenant.stride = stride
        return tenant

    def order(self, tenant: Tenant, ordered: bool) -> None:
        """Put a tenant in the order or take it out; call this after every change of its jobs."""
        if ordered and not tenant.ordered:
            tenant.passes = max(tenant.passes, self._floor)
            self._order.add(tenant.passes)
        elif tenant.ordered and not ordered:
            self._order.remove(tenant.passes)
        tenant.ordered = ordered
        self._raise_floor()
        if not ordered:
            self._depart(tenant)

    def served(self, tenant: Tenant) -> None:
        """Note that one job of a tenant in the order was taken."""
        self._order.remove(tenant.passes)
        lowest = self._highest - self._lag - tenant.running * tenant.stride
        tenant.passes = max(tenant.passes, lowest) + tenant.stride
        self._order.add(tenant.passes)
        self._highest = max(self._highest, tenant.passes)

    def _raise_floor(self) -> None:
        lowest = self._order[0] if self._order else self._highest
        self._floor = max(self._floor, lowest, self._highest - self._lag)
        for _ in range(_FORGOTTEN):
            if not self._departed or self._departed[0][0] > self._floor:
                return
            tenant = self.tenants[heappop(self._departed)[1]]
            tenant.departing = False
            self._depart(tenant)

    def _depart(self, tenant: Tenant) -> None:
        if tenant.waiting or tenant.running or tenant.departing:
            return
        if tenant.passes <= self._floor:
            self.tenants.pop(tenant.id, None)
        else:
            tenant.departing = True
            heappush(self._departed, (tenant.passes, tenant.id))
