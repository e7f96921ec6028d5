"""What limits cap: how many jobs run at once, how many start in a time, how many may wait."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import ceil
from typing import Annotated, Literal

from pydantic import BeforeValidator, PlainSerializer

from streams.topology.declared import Count, Declared, Name, Text

Scope = Literal["global", "pool", "job_type", "source", "tenant", "tool", "model", "key"]
SCOPES_OF_CALLS: tuple[Scope, ...] = "tool", "model"
"""Their limits count calls of the outside, and not jobs."""
KEYED: tuple[Scope, ...] = "source", "key"
"""Their values do not follow from a job's tenant, pool and type, so they stand on its row."""

_UNITS = {"s": 1, "sec": 1, "min": 60, "h": 3600, "hour": 3600, "day": 86_400}
_RATE = re.compile(rf"([1-9][0-9]*)/({'|'.join(_UNITS)})")


@dataclass(frozen=True, slots=True)
class Rate:
    """At most `count` starts in `seconds`, evenly spread but for the limit's burst."""

    count: int
    seconds: float

    @property
    def interval(self) -> float:
        """How far starts are apart, in seconds."""
        return self.seconds / self.count

    def __str__(self) -> str:
        unit = next(name for name, seconds in _UNITS.items() if seconds == self.seconds)
        return f"{self.count}/{unit}"


def _rate(text: object) -> Rate:
    """A rate as the file has it.

    Raises:
        ValueError: it is none; the message says what one looks like.
    """
    found = _RATE.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise ValueError(f"a rate as 100/min; its unit is one of {', '.join(_UNITS)}")
    return Rate(int(found[1]), _UNITS[found[2]])


@dataclass(frozen=True, slots=True)
class Limit(Declared):
    """A cap for each value of a scope that `match` selects.

    - `by` (scope `key`) is a JMESPath expression on the job (`limits/keys.py`).
    - `per: tenant` gives each tenant caps of its own.
    - `burst` is how many jobs a rate lets start at once after a pause.
    - `shared` says whether a cap holds over all partitions. Unless it says so, that is so for what
      counts jobs of several tenants, and each tenant has values of scope `key` to itself.
    """

    name: Name
    scope: Scope
    match: Text = "*"
    concurrency: Count | None = None
    rate: Annotated[Rate, BeforeValidator(_rate), PlainSerializer(str)] | None = None
    burst: Count | None = None
    by: Text | None = None
    per: Literal["tenant"] | None = None
    shared: bool | None = None

    @property
    def is_local(self) -> bool:
        """Whether all that it counts together is of one tenant, and so in one partition."""
        own_keys = self.scope == "key" and not self.shared
        return self.scope == "tenant" or self.per is not None or own_keys

    @property
    def is_shared(self) -> bool:
        """Whether what it counts together is in several partitions, and it holds over all."""
        return not self.is_local and self.shared is not False

    @property
    def least_burst(self) -> int:
        """The least burst that its rate may have.

        Starts of a shared rate are granted ahead (`start_seconds`), so its burst has to cover what
        the rate brings meanwhile.
        """
        if self.rate is None or not self.is_shared:
            return 1
        return ceil(self.rate.count / self.rate.seconds) + 1

    @property
    def start_seconds(self) -> float:
        """For how long a start of a shared rate may be used, once a partition has asked for it.

        It is a second, or what the next whole number of starts takes, which costs no more burst.
        """
        return 0.0 if self.rate is None else (self.least_burst - 1) * self.rate.interval

    @property
    def most_at_once(self) -> int:
        """How many starts of its rate may come at once after a pause."""
        return self.burst or self.least_burst

    @property
    def counts_calls(self) -> bool:
        """Whether it counts calls of tools or models, and not jobs."""
        return self.scope in SCOPES_OF_CALLS


QueueScope = Literal["tenant", "job_type", "global"]


@dataclass(frozen=True, slots=True)
class MaxQueued(Declared):
    """How many jobs of each matching value may wait for a slot before new ones are refused."""

    scope: QueueScope
    jobs: Count
    match: Text = "*"
