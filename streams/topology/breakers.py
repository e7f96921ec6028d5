"""Circuit breakers: a tool whose calls keep failing is left alone for a while."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from streams.topology.declared import Declared, Positive, Text

_MOST = 1_000
Failures = Annotated[int, Field(ge=1, le=_MOST, strict=True)]


@dataclass(frozen=True, slots=True)
class Breaker(Declared):
    """Opens the circuit of a tool; `tool` is a glob, and each tool has a circuit of its own.

    After `failures` failed calls in `seconds`, none begins for `open_seconds`. Then one at a time
    tries it: a failed one opens the circuit again, and one that is done closes it.
    """

    tool: Text
    failures: Failures = 5
    seconds: Positive = 60
    open_seconds: Positive = 30
