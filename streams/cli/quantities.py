"""Durations, times and rates as people write them: `24h`, `20s`, `600/60s`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import typer

from streams.http.moments import written

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


def moment(text: str, flag: str, *, ahead: bool = False) -> str:
    """A time as the API takes it, RFC 3339; of a duration, the time so long ago, or `ahead` of now.

    The API reads a text of another form than a duration, and refuses one that is no time.

    Raises:
        BadParameter: it is neither a duration nor begins with a date; names the flag.
    """
    if text[:4].isdecimal() and text[4:5] == "-":
        return text
    if _DURATION.fullmatch(text.strip()) is None:
        raise typer.BadParameter(
            f"{text!r} is no time: write one in RFC 3339, as 2026-11-21T09:00:00Z, or how long "
            f"{'from now' if ahead else 'ago'}, as 20m, 2h or 7d",
            param_hint=flag,
        )
    try:
        apart = timedelta(seconds=duration(text, flag))
        found = datetime.now(UTC) + (apart if ahead else -apart)
    except OverflowError:
        raise typer.BadParameter(f"{text!r} is too long", param_hint=flag) from None
    return written(found)


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
