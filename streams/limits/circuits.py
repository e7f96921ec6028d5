"""The circuits of tools in one partition, by the circuit breakers of a topology.

A circuit is closed until too many calls of its tool have failed; then it is open, and no call
begins. Once its time is over, one call at a time tries the tool. Times are seconds of this
process's monotonic clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import islice
from math import inf

from streams.limits.buckets import CIRCUIT, Bucket
from streams.topology.breakers import Breaker

_REMEMBERED = 4096
_LOOKED_AT = 4
"""More than a call adds, so that tools that failed once and are called no more do not pile up."""


@dataclass(frozen=True, slots=True)
class Circuit:
    """When the calls that count failed, and until when the circuit is open (None: it is closed)."""

    failures: tuple[float, ...] = ()
    open_until: float | None = None


class Circuits:
    """The circuits that are not as new; a tool without one has a closed circuit."""

    def __init__(self, breakers: tuple[Breaker, ...]) -> None:
        self.are_declared = bool(breakers)
        self._breakers = breakers
        self._of: dict[str, Circuit] = {}
        self.open = 0
        """How many circuits are not closed."""
        self.breaker = lru_cache(_REMEMBERED)(self._breaker)

    def get(self, tool: str) -> Circuit | None:
        """The circuit of a tool, if a call of it failed lately."""
        return self._of.get(tool)

    def set(self, tool: str, circuit: Circuit | None) -> None:
        """Set the circuit of a tool; None: as new."""
        self.open += is_open(circuit) - is_open(self._of.pop(tool, None))
        if circuit is not None:
            self._of[tool] = circuit

    def stale(self, now: float) -> list[str]:
        """The tools, of the next few, whose failures count no more; later calls look at others."""
        found = list(islice(self._of, _LOOKED_AT))
        for tool in found:
            self._of[tool] = self._of.pop(tool)
        return [tool for tool in found if self._is_stale(tool, self._of[tool], now)]

    def bucket(self, tool: str | None) -> tuple[Bucket, ...]:
        """What counts the calls that try a tool; nothing while its circuit is closed."""
        circuit = None if tool is None else self._of.get(tool)
        if tool is None or circuit is None or circuit.open_until is None:
            return ()
        return (Bucket(CIRCUIT, "", tool),)

    def room(self, bucket: Bucket, under_way: int, now: float) -> float:
        """How many more calls may begin, beside those that try the tool already."""
        circuit = self._of.get(bucket.key)
        if circuit is None or circuit.open_until is None:
            return inf
        return 0 if now < circuit.open_until else max(0, 1 - under_way)

    def next_try_at(self, bucket: Bucket) -> float | None:
        """From when on a call may try the tool."""
        circuit = self._of.get(bucket.key)
        return None if circuit is None else circuit.open_until

    def after(self, tool: str, *, failed: bool, now: float) -> Circuit | None:
        """The circuit of a tool after a call that failed, or was done."""
        breaker, known = self.breaker(tool), self._of.get(tool)
        if breaker is None or known is None:
            return None if breaker is None or not failed else _failing(breaker, (now,), now)
        if not failed:
            return known if known.open_until is None else None
        if known.open_until is None:
            recent = (each for each in known.failures if each > now - breaker.seconds)
            return _failing(breaker, (*recent, now), now)
        return known if now < known.open_until else _open(breaker, now)

    def _is_stale(self, tool: str, circuit: Circuit, now: float) -> bool:
        breaker = self.breaker(tool)
        is_closed = circuit.open_until is None
        last = max(circuit.failures, default=now)
        return is_closed and (breaker is None or last <= now - breaker.seconds)

    def _breaker(self, tool: str) -> Breaker | None:
        return next((each for each in self._breakers if fnmatchcase(tool, each.tool)), None)


def _failing(breaker: Breaker, failures: tuple[float, ...], now: float) -> Circuit:
    return _open(breaker, now) if len(failures) >= breaker.failures else Circuit(failures)


def is_open(circuit: Circuit | None) -> bool:
    """Whether a circuit is not closed; None is one as new."""
    return circuit is not None and circuit.open_until is not None


def _open(breaker: Breaker, now: float) -> Circuit:
    return Circuit(open_until=now + breaker.open_seconds)
