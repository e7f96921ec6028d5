"""The values by which events and jobs are compared: `by` in a topology file.

`by` is `subject` or `attributes.NAME` for events. For jobs that are submitted it may be `input.`
and a JMESPath expression on their input.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Protocol

from ingress.formats.paths import compile_path, expression_fault
from streams import user_json
from streams.topology.problems import near

SUBJECT, ATTRIBUTE, INPUT = "subject", "attributes.", "input."


class Compared(Protocol):
    """What an event is compared by."""

    @property
    def subject(self) -> str | None: ...
    @property
    def attributes(self) -> Mapping[str, str]: ...


def value_of(by: str, event: Compared) -> str | None:
    """The value of an event; None or empty if it has none."""
    return event.subject if by == SUBJECT else event.attributes.get(by.removeprefix(ATTRIBUTE))


def value_of_input(by: str, text: str) -> str | None:
    """The value of a submitted job, as JSON; None if its input has none, or is no JSON."""
    if not by.startswith(INPUT):
        return None
    try:
        found = _compiled(by.removeprefix(INPUT))(user_json.read(text))
        plain = isinstance(found, str | int | float) and found != ""
        return user_json.write(found).decode() if plain else None
    except (ValueError, TypeError):  # a number or text that JSON does not keep
        return None


def fault(by: str, *, of_inputs: bool = False) -> str | None:
    """What is wrong with a `by`, and what to write instead; None if it can be used."""
    if of_inputs and by.startswith(INPUT) and by != INPUT:
        wrong = expression_fault(by.removeprefix(INPUT))
        return None if wrong is None else f"the expression after {INPUT} {wrong}; correct it"
    if by == SUBJECT or (by.startswith(ATTRIBUTE) and by != ATTRIBUTE):
        return None
    known = [SUBJECT, f"{ATTRIBUTE}NAME", *([f"{INPUT}EXPRESSION"] if of_inputs else [])]
    what = "events or jobs are" if of_inputs else "events are"
    listed = f"{', '.join(known[:-1])}, or {known[-1]}"
    return f"{by!r} is nothing that {what} compared by{near(by, [SUBJECT])}; write {listed}"


_compiled = lru_cache(maxsize=64)(compile_path)
