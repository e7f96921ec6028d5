"""Counts failed sign-ins by the address that they came from, and stops an address that has many."""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from collections.abc import Callable

MOST, WITHIN_SECONDS = 20, 60.0
"""An address that failed so often within this time waits until it is over."""

_MOST_ADDRESSES = 10_000


class Failures:
    """Windows of a fixed length by address; the oldest of too many addresses are forgotten."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._counts: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def wait_seconds(self, address: str) -> int:
        """Return how long an address waits; 0 if it may try."""
        ends, count = self._counts.get(address, (0.0, 0))
        left = ends - self._clock()
        return max(1, round(left)) if left > 0 and count >= MOST else 0

    def failed(self, address: str) -> None:
        """Count a failure."""
        now = self._clock()
        ends, count = self._counts.pop(address, (0.0, 0))
        self._counts[address] = (ends, count + 1) if ends > now else (now + WITHIN_SECONDS, 1)
        if len(self._counts) > _MOST_ADDRESSES:
            self._counts.popitem(last=False)


def address_of(remote: str | None) -> str:
    """Return a peer's address; of IPv6 its network of 64 bits, which is one host's."""
    try:
        address = ipaddress.ip_address(remote or "")
    except ValueError:
        return ""
    if address.version == 4:
        return str(address)
    return str(ipaddress.ip_network((address, 64), strict=False))
