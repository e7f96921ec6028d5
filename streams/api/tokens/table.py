"""Tokens as the API shows them: what they grant, and never their secret.

They are read from the records that each process keeps, by which it knows who asks.
"""

from __future__ import annotations

import sqlite3

from streams.access.authentication import Authentication
from streams.access.permissions import ADMIN
from streams.access.principal import Principal
from streams.access.token_records import EVERY_TENANT, TokenGrant
from streams.api.rows.cursor import Cursor
from streams.api.rows.json_values import Json
from streams.api.rows.paging import Operator, Page, PagedList, PageQuery
from streams.http.moments import rfc3339
from streams.process.wall_clock import wall_ms


def token_json(access: Authentication, grant: TokenGrant, now: int) -> Json:
    """Return a token; `status` is `active`, `expired` or `revoked` at `now` (milliseconds)."""
    return {
        "id": grant.id,
        "name": grant.name,
        "role": grant.role,
        "permissions": access.book.permissions_json(grant),
        "tenants": [EVERY_TENANT] if grant.tenants is None else sorted(grant.tenants),
        "pools": grant.pools,
        "job_types": grant.job_types,
        "status": grant.has_ended(now) or "active",
        "made_at": rfc3339(grant.made_at),
        "made_by": grant.made_by,
        "expires_at": rfc3339(grant.expires_at),
        "last_used_at": rfc3339(access.used_at(grant.id)),
        "revoked_at": rfc3339(grant.revoked_at),
        "revoked_by": grant.revoked_by,
    }


def is_within(principal: Principal, access: Authentication, grant: TokenGrant) -> bool:
    """Return whether a token has no more than the rights of a caller, who then may know of it."""
    return principal.contains(access.book.permissions(grant), grant.tenants)


def _page(_: sqlite3.Connection, query: PageQuery, operator: Operator) -> Page:
    """Return the tokens within one's own rights, the newest first, ended ones too."""
    access, now = operator.authentication, wall_ms()
    grants = [g for g in access.book.grants() if is_within(operator.principal, access, g)]
    place = None if query.cursor is None else (query.cursor.at, query.cursor.id)
    newest = sorted(grants, key=lambda each: (each.made_at, each.id), reverse=True)
    behind = [each for each in newest if place is None or (each.made_at, each.id) < place]
    page = behind[: query.limit]
    after = Cursor(page[-1].made_at, page[-1].id) if len(behind) > len(page) else None
    return Page(tuple(token_json(access, each, now) for each in page), after)


LISTING = PagedList("tokens", ("/v1/tokens",), _page, {}, needs=ADMIN)
