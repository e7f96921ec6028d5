"""Lists: their query strings, the shape of their answers, and the calls that only list."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace

from aiohttp import web
from aiohttp.typedefs import Handler

from streams.access.permissions import ADMIN
from streams.access.principal import Principal
from streams.api.refusal import all_invalid, invalid
from streams.api.rights import require_permission
from streams.api.rows.cursor import Cursor, parse_cursor
from streams.api.rows.paging import Filters, Listing, Page, PagedList, PageQuery
from streams.api.serving.call import LISTED, ROW, TENANT_IN_PATH, Calls, state_of
from streams.api.tenants.guards import known_tenant
from streams.http.moments import milliseconds

DEFAULT_LIMIT = 50
MAX_LIMIT = 200


async def known_path(request: web.Request) -> None:
    """Return if there is what the path of a list names.

    Raises:
        Refusal: 404, there is no such tenant.
    """
    if "tenant_id" in request.match_info:
        await known_tenant(state_of(request), request.match_info["tenant_id"])


def listed(
    listings: Iterable[Listing | PagedList],
    known: Callable[[web.Request], Awaitable[object]] = known_path,
) -> Calls:
    """Return the calls of lists; `known` refuses one whose path names what is not there."""
    calls = Calls()
    for listing in listings:
        for path in listing.paths:
            of = TENANT_IN_PATH if "{tenant_id}" in path else ROW if "{" in path else LISTED
            calls.get(path, of=of, needs=listing.needs)(_lister(listing, known))
    return calls


ONLY_OF = "only_of"
"""Beside a list: the caller whose acts alone it has; null if it has those of all."""


def _lister(
    listing: Listing | PagedList, known: Callable[[web.Request], Awaitable[object]]
) -> Handler:
    """Return the handler of a list; what its path names are filters, too."""

    async def handle(request: web.Request) -> web.Response:
        state, path = state_of(request), dict(request.match_info)
        filters = {name: values for name, values in listing.filters.items() if name not in path}
        query = page_query(request, filters)
        await known(request)
        times = {name: _moment(name, request.query.get(name)) for name in listing.times}
        own = _own(listing, query, state.principal)
        query = replace(query, filters={**query.filters, **times, **path, **own})
        page = await state.query(lambda db: listing.shown(db, query, state))
        if listing.by:
            page = replace(page, beside={**page.beside, ONLY_OF: own.get(listing.by)})
        return list_answer(listing.name, page)

    return handle


def _own(listing: Listing | PagedList, query: PageQuery, caller: Principal) -> dict[str, str]:
    """Return the filter of a list that shows a caller only what they did themselves.

    Raises:
        Refusal: 403, the query names somebody else.
    """
    if not listing.by or caller.may(ADMIN):
        return {}
    if query.filters[listing.by] not in (None, caller.id):
        require_permission(caller, ADMIN)
    return {listing.by: caller.id}


def page_query(request: web.Request, filters: Filters, most: int | None = None) -> PageQuery:
    """Return the filters, `limit` (1 to 200) and `cursor` of a query string.

    With `most`, that is the largest limit, and the one of a query that names none.

    Raises:
        Refusal: 422. A parameter that is misspelt or given twice must not widen a list.
    """
    query = request.query
    known = {*filters, "limit", "cursor"}
    faults = [
        (name, f"is no parameter of this list: it takes {', '.join(sorted(known))}")
        for name in query
        if name not in known
    ]
    faults += [
        (n, "is given more than once: give it once") for n in set(query) if len(query.getall(n)) > 1
    ]
    if faults:
        raise all_invalid(sorted(faults))
    given = {name: query.get(name) for name in filters}
    limit = _limit(query.get("limit"), most or DEFAULT_LIMIT, most or MAX_LIMIT)
    page = PageQuery(limit, cursor_in(query.get("cursor")), given)
    for name, value in given.items():
        if value is not None and filters[name] and value not in filters[name]:
            raise invalid(name, f"{value!r} is not one of {', '.join(filters[name])}")
    return page


def list_answer(name: str, page: Page) -> web.Response:
    """Answer `{name: [...], "next_cursor": text or null}`, and what the page has beside them."""
    cursor = None if page.next is None else str(page.next)
    return web.json_response({name: list(page.items), **page.beside, "next_cursor": cursor})


def _moment(name: str, text: str | None) -> int | None:
    try:
        return None if text is None else milliseconds(text)
    except ValueError as error:
        raise invalid(name, str(error)) from None


def _limit(text: str | None, default: int, most: int) -> int:
    if text is None:
        return default
    if not re.fullmatch(r"[0-9]{1,4}", text) or not 1 <= int(text) <= most:
        raise invalid("limit", f"must be a number from 1 to {most}")
    return int(text)


def cursor_in(text: str | None) -> Cursor | None:
    """Return the cursor that a client sends back; refuse any other text with 422."""
    try:
        return None if text is None else parse_cursor(text)
    except (ValueError, TypeError):
        raise invalid("cursor", "must be the next_cursor of an earlier answer") from None
