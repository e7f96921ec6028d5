"""What options of `tidegate bulk ...` mean: filters, parameters, steps and failures."""

from __future__ import annotations

import json
from typing import Any

import typer

from streams import user_json
from streams.cli.operator_command import Answer
from streams.cli.quantities import moment


def body_of(action: str, filters: list[str] | None, params: list[str] | None) -> Answer:
    """Return the body of a bulk act, as far as a plan has it."""
    return {
        "action": action,
        "filter": {
            name: moment(value, "--filter") if name in ("since", "until") else value
            for name, value in _pairs(filters, "--filter").items()
        },
        "params": _pairs(params, "--param"),
    }


def _pairs(texts: list[str] | None, flag: str) -> dict[str, Any]:
    """Values by name; one that is a JSON object or list is sent as that, and others as text."""
    found: dict[str, Any] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise typer.BadParameter(f"{flag} {text!r}: write NAME=VALUE")
        if name in found:
            raise typer.BadParameter(f"{flag} {name} is given more than once")
        found[name] = _value(value, flag)
    return found


def _value(text: str, flag: str) -> Any:
    if not text.startswith(("{", "[")):
        return text
    try:
        value = user_json.read(text)
        user_json.write(value)
    except json.JSONDecodeError as error:
        raise typer.BadParameter(f"{flag} {text!r} is not JSON: {error}") from None
    except TypeError as error:
        raise typer.BadParameter(f"{flag} {text!r} cannot be kept as it is: {error}") from None
    return value


def ramp_of(text: str) -> list[int]:
    """Return the sizes of an act's first steps."""
    try:
        return [] if text == "all" else [int(size) for size in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"--ramp {text!r}: write numbers, such as 1,10,100") from None


def failures_of(text: str) -> float | int | None:
    """Return the failures that stop an act: a number, a share, or None for never."""
    try:
        if text == "never":
            return None
        return float(text) if "." in text else int(text)
    except ValueError:
        raise typer.BadParameter(f"--stop-at-failures {text!r}: write a number") from None
