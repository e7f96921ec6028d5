"""Durations and rates as people write them: `24h`, `20s`, `600/60s`."""

from __future__ import annotations

import re
from typing import Any

import typer

_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3_600, "d": 86_400}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", re.ASCII)
_RATE = re.compile(r"(\d+)/(.+)", re.ASCII)


def duration(text: str, flag: str) -> float:
    """Seconds of a number with a unit.

    Raises:
        BadParameter: it has another form; names the flag.
    """
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise typer.BadParameter(
            f"{text!r} is no duration: write a number and its unit, as 20s, 15m, 24h or 7d",
            param_hint=flag,
        )
    return float(found[1]) * _SECONDS[found[2]]


def rate(text: str, flag: str) -> dict[str, Any]:
    """A rate as the API takes it: a count, and the seconds in which it may come.

    Raises:
        BadParameter: it has another form; names the flag.
    """
    found = _RATE.fullmatch(text.strip())
    if found is None:
        raise typer.BadParameter(
            f"{text!r} is no rate: write a count and a duration, as 600/60s", param_hint=flag
        )
    return {"count": int(found[1]), "seconds": duration(found[2], flag)}
