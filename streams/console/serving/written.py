"""How values are written on a page: times, durations, numbers, JSON, long and odd text."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import orjson
from jinja2 import Undefined
from markupsafe import Markup, escape

from streams.http.moments import milliseconds
from streams.process.wall_clock import wall_ms

_ODD = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202f\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0\ufff9-\ufffb"
    "\U000e0000-\U000e0fff]"
)
"""Control characters, those that are not seen or turn the direction of text, and half ones."""

_UNSENDABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff]")
"""Characters that no page can have so that a browser sends them back."""

_PAGES = {
    "/v1/effects": "/console/jobs",
    "/v1/effects/unknown": "/console/reviews",
    "/v1/backlog": "/console/limits",
    "/v1/held": "/console/workers",
    "/v1/duplicates": "/console/events",
}
"""Calls whose pages have other names."""

_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))
MOST_CHARS = 20_000


def visible(value: Any) -> Any:
    """Return what is written for a value; odd characters of a text as escapes."""
    if value is None or isinstance(value, Undefined):
        return Markup('<span class="none">–</span>')
    if isinstance(value, str) and not isinstance(value, Markup):
        return _ODD.sub(_escape, value)
    return value


def _escape(found: re.Match[str]) -> str:
    """Return a character as JSON has it, which has those beyond 16 bits as two."""
    halves = found[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{halves[each : each + 4]}" for each in range(0, len(halves), 4))


def as_sent(value: Any) -> Markup:
    """Return a value for a field of a form, so that a browser sends it back as it is."""
    text = "" if value is None or isinstance(value, Undefined) else str(value)
    return escape(_UNSENDABLE.sub(_escape, text)).replace("\r", Markup("&#13;"))


def cut(text: str, most: int = MOST_CHARS) -> str:
    """Return the beginning of a text, and how much is left out."""
    if not text:
        return ""
    left = len(text) - most
    return text if left <= 0 else f"{text[:most]}… ({left:,} more characters)"


def is_cut(value: Any, most: int = MOST_CHARS) -> bool:
    """Return whether a page has only the beginning of a text, or of a value as JSON."""
    text = value if isinstance(value, str) else as_json(value, most)
    return value is not None and len(text) > most


def as_json(value: Any, most: int = MOST_CHARS) -> str:
    """Return a value as indented JSON, cut where it is too long for a page."""
    if isinstance(value, Undefined):
        return ""
    try:
        text = orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
    except TypeError:  # deeper than orjson writes
        text = _as_python(value)
    return cut(text, most)


def _as_python(value: Any) -> str:
    try:
        return str(value)
    except RecursionError:
        return "nested too deep to be shown"


def moment(text: str | None) -> Markup | None:
    """Return a time of the API as it is, with the time since or until then beside it."""
    if not text:
        return None
    try:
        since = wall_ms() - milliseconds(text)
    except ValueError:
        return Markup("{}").format(text)
    beside = f"{duration(since)} ago" if since >= 0 else f"in {duration(-since)}"
    day, clock = text[:10], text[11:19]
    return Markup(
        '<time datetime="{}" title="{}">{} {} <span class="beside">{}</span></time>'
    ).format(text, text, day, clock, beside)


def duration(ms: float | None) -> str | None:
    """Return a duration in its two largest units, such as `2 h 5 min`."""
    if ms is None or isinstance(ms, Undefined):
        return None
    if ms < 1000:
        return f"{ms:.0f} ms"
    if ms < 10_000:
        return f"{ms / 1000:.1f} s"
    left, parts = int(ms), list[str]()
    for size, name in _UNITS:
        count, left = divmod(left, size)
        if count or parts:
            parts.append(f"{count} {name}")
    return " ".join(part for part in parts[:2] if not part.startswith("0 ")) or "0 s"


def number(value: float | None) -> str | None:
    """Return a number with its thousands apart."""
    if value is None or isinstance(value, Undefined):
        return None
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"


def names(values: Any) -> str | None:
    """Return the items of a list in one line, each by its name if it has one; None for none."""
    if not isinstance(values, list | tuple | set | frozenset) or not values:
        return None
    return ", ".join(str(v.get("name", v)) if isinstance(v, dict) else str(v) for v in values)


def segment(text: object) -> str:
    """Return a text as one part of a URL's path."""
    return quote(str(text), safe="")


def page_of(call: str | None) -> str:
    """Return the page that shows what a call of the API answers."""
    if not call:
        return "/console"
    path, mark, query = call.partition("?")
    return _PAGES.get(path, path.replace("/v1/", "/console/", 1)) + mark + query


def since(text: str | None, until: str | None = None) -> float | None:
    """Return the milliseconds from a time of the API to another one, or to now."""
    if not text:
        return None
    end = wall_ms() if until is None else milliseconds(until)
    return float(end - milliseconds(text))


FILTERS: dict[str, Callable[..., Any]] = {
    "cut": cut,
    "is_cut": is_cut,
    "as_json": as_json,
    "as_sent": as_sent,
    "moment": moment,
    "duration": duration,
    "names": names,
    "number": number,
    "page_of": page_of,
    "segment": segment,
    "since": since,
}
