"""The results of finished steps, as tests write and read them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from streams.serde.codec import STEP_RESULT
from streams.serde.records import StepResult


def left(values: Mapping[str, str]) -> tuple[StepResult, ...]:
    """The results of steps with these ids and values (JSON text)."""
    return tuple(StepResult(id_, "step", value=value) for id_, value in values.items())


def values_of(results: Iterable[StepResult]) -> dict[str, str | None]:
    """The values of steps by their ids."""
    return {result.id: result.value for result in results}


def framed(value: str) -> bytes:
    """A record of the changelog of `checkpoints` whose step has this value."""
    return STEP_RESULT.encode(StepResult("step", "step", value=value))
