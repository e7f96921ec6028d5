"""`ETag` of a thing that a call shows, and `If-Match` and `If-None-Match` of one that changes it.

Source: RFC 9110, sections 8.8.3, 13.1.1 and 13.1.2.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

from streams.api import remedy
from streams.api.condition import ANY, Condition, quoted
from streams.api.operator_state import AppState
from streams.api.refusal import invalid
from streams.api.rows.table import Row

CONDITION: web.RequestKey[Condition] = web.RequestKey("condition", Condition)
"""Set if the call has a condition."""
NEW_TAGS: web.RequestKey[dict[Row, str | None]] = web.RequestKey("new_tags", dict)
"""The tags of the settings that the call has written, of a call that changes something tagged."""

_TAG = re.compile(r'\s*(?:W/)?"([\x21\x23-\x7e]*)"\s*')


@dataclass(frozen=True, slots=True)
class Tagged:
    """What a call shows or changes: a setting of a tenant, of a kind, below a path.

    `collection` is the path's part before its id, and `part` the id's name in the path; the
    tenant itself has neither. `tag` looks up the present tag, or None if there is no such thing.
    """

    kind: str
    collection: str
    part: str
    tag: Callable[[AppState, Row], Awaitable[str | None]]

    async def shown(
        self, request: web.Request, state: AppState, handler: Handler
    ) -> web.StreamResponse:
        """Answer a look with its tag, which is read first: a change in between makes it stale."""
        tag = await self.tag(state, self._key(request))
        answer = await handler(request)
        if tag is not None:
            answer.headers[hdrs.ETAG] = quoted(tag)
        return answer

    async def changed(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer a change, made under its condition, with the tag of what it wrote.

        The tag is that of the state which the answer shows: a later one would let the caller
        overwrite what it has not seen.
        """
        if (condition := self.condition(request)) is not None:
            request[CONDITION] = condition
        request[NEW_TAGS] = {}
        answer = await handler(request)
        if (tag := request[NEW_TAGS].get(self._key(request))) is not None:
            answer.headers[hdrs.ETAG] = quoted(tag)
        return answer

    def condition(self, request: web.Request) -> Condition | None:
        """Return the condition of a change, None if it has none.

        Raises:
            Refusal: 422, a header names no tag.
        """
        match = request.headers.getall(hdrs.IF_MATCH, [])
        none = request.headers.getall(hdrs.IF_NONE_MATCH, [])
        if not match and not none:
            return None
        if none and [each.strip() for each in none] != [ANY]:
            raise invalid("If-None-Match", "a change takes * alone: create it only if it is new")
        key = self._key(request)
        below = (self.collection, key[2]) if key[2] else filter(None, (self.collection,))
        look = remedy.get("tenants", key[0], *below)
        return Condition(key, _tags(", ".join(match)) if match else None, bool(none), look)

    def _key(self, request: web.Request) -> Row:
        path = request.match_info
        return path["tenant_id"], self.kind, path.get(self.part, "")


def _tags(text: str) -> frozenset[str]:
    if text.strip() == ANY:
        return frozenset((ANY,))
    parts = text.split(",")
    found = [_TAG.fullmatch(each) for each in parts]
    if not all(found):
        raise invalid("If-Match", 'must be *, or the ETag of an earlier answer, as "1f0c"')
    # A weak tag never matches: it does not say that nothing was changed.
    strong = zip(parts, found, strict=True)
    return frozenset(m[1] for each, m in strong if m and not each.lstrip().startswith("W/"))
