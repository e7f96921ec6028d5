"""The query string of the API: which windows are asked for, and whose."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from streams.analytics.query import Query
from streams.analytics.windows import KEPT_MS, STEPS, StepName
from streams.http.moments import milliseconds

if TYPE_CHECKING:
    from multidict import MultiMapping

_DEFAULT_SPAN_MS = 3_600_000
_FINE_SPAN_MS = 86_400_000
"""The longest span that is answered in minutes: a minute's row costs as much as an hour's."""
_FARTHEST_AHEAD_MS = 86_400_000
"""How far ahead of now a span may end: every window of it is answered, also those to come."""
_MOST_ROWS, _NUMBER = 200, re.compile("[0-9]{1,9}")
_KNOWN = ("tenant_id", "source", "type", "since", "until", "step")


class BadRequest(Exception):
    """A query string that has no answer; the message names the parameter and the remedy."""


def query(given: MultiMapping[str], now: int, extra: Sequence[str] = ()) -> Query:
    """The query in a query string; without times, the last hour.

    Spans longer than a day are answered in hours unless `step` says otherwise. `since` is rounded
    down to a whole window and `until` up. What is older than 7 days is left out, and what is more
    than a day ahead.

    Raises:
        BadRequest: an unknown parameter, one given twice, or a value that none can have.
    """
    known = (*_KNOWN, *extra)
    for name in given:
        if name not in known:
            raise BadRequest(f"{name} is no parameter of this call: it takes {', '.join(known)}")
        if len(given.getall(name)) > 1:
            raise BadRequest(f"{name} is given more than once: give it once")
    until = min(_moment(given, "until", now), now + _FARTHEST_AHEAD_MS)
    since = max(_moment(given, "since", until - _DEFAULT_SPAN_MS), now - KEPT_MS)
    if since >= until:
        raise BadRequest("since must lie before until, and until within the last 7 days")
    step = _step(given, since, until)
    width = STEPS[step].ms
    return Query(
        step,
        STEPS[step].start(since),
        STEPS[step].start(until - 1) + width,
        given.get("tenant_id"),
        given.get("source"),
        given.get("type"),
    )


def limit(given: MultiMapping[str]) -> int:
    """How many rows are asked for, 20 by default.

    Raises:
        BadRequest: not a number from 1 to 200.
    """
    text = given.get("limit", "20")
    if not _NUMBER.fullmatch(text) or not 1 <= int(text) <= _MOST_ROWS:
        raise BadRequest(f"limit must be a number from 1 to {_MOST_ROWS}")
    return int(text)


def _step(given: MultiMapping[str], since: int, until: int) -> StepName:
    fine = until - since <= _FINE_SPAN_MS
    match given.get("step"):
        case "hour":
            return "hour"
        case "minute" if fine:
            return "minute"
        case "minute":
            raise BadRequest("a span of more than a day has no step=minute: ask for step=hour")
        case None:
            return "minute" if fine else "hour"
        case other:
            raise BadRequest(f"step is minute or hour, not {other!r}")


def _moment(given: MultiMapping[str], name: str, otherwise: int) -> int:
    text = given.get(name)
    try:
        return otherwise if text is None else milliseconds(text)
    except ValueError as error:
        raise BadRequest(f"{name} {error}") from None
