"""Query strings of lists, and the shape of their answers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from aiohttp import web

from streams.operator.http.refusal import invalid
from streams.operator.http.views import Json
from streams.operator.read_model.cursor import Cursor, parse_cursor

DEFAULT_LIMIT = 50
MAX_LIMIT = 200


@dataclass(frozen=True, slots=True)
class PageWanted:
    """What a list is asked for; a filter that is not given is None."""

    filters: dict[str, str | None]
    limit: int
    cursor: Cursor | None


def page_wanted(request: web.Request, *filters: str) -> PageWanted:
    """Filters, `limit` (1 to 200) and `cursor` of a query string.

    Raises:
        Refusal: 422. A parameter that is misspelt or given twice must not widen a list.
    """
    query = request.query
    known = {*filters, "limit", "cursor"}
    faults = [(name, f"takes {', '.join(sorted(known))}") for name in query if name not in known]
    faults += [(n, "given more than once") for n in set(query) if len(query.getall(n)) > 1]
    if faults:
        raise invalid(sorted(faults))
    given = {name: query.get(name) for name in filters}
    return PageWanted(given, _limit(query.get("limit")), _cursor(query.get("cursor")))


def list_answer(name: str, items: Sequence[Json], after: Cursor | None) -> web.Response:
    """`{name: [...], "next_cursor": text or null}`."""
    cursor = None if after is None else str(after)
    return web.json_response({name: list(items), "next_cursor": cursor})


def _limit(text: str | None) -> int:
    if text is None:
        return DEFAULT_LIMIT
    if not re.fullmatch(r"[0-9]{1,3}", text) or not 1 <= int(text) <= MAX_LIMIT:
        raise invalid([("limit", f"must be a number from 1 to {MAX_LIMIT}")])
    return int(text)


def _cursor(text: str | None) -> Cursor | None:
    if text is None:
        return None
    try:
        return parse_cursor(text)
    except (ValueError, TypeError):
        raise invalid([("cursor", "must be the next_cursor of an earlier page")]) from None
