"""Tokens as the API shows them: what they grant, and never their secret."""

from __future__ import annotations

from collections.abc import Sequence

from streams.access.authentication import Authentication
from streams.access.token_records import EVERY_TENANT, TokenGrant
from streams.api.rows.cursor import Cursor
from streams.api.rows.json_values import Json
from streams.api.rows.paging import Page, PageQuery
from streams.http.moments import rfc3339


def token_json(access: Authentication, grant: TokenGrant, now: int) -> Json:
    """Return a token; `status` is `active`, `expired` or `revoked` at `now` (milliseconds)."""
    return {
        "id": grant.id,
        "name": grant.name,
        "role": grant.role,
        "permissions": access.book.permissions_json(grant),
        "tenants": [EVERY_TENANT] if grant.tenants is None else sorted(grant.tenants),
        "status": grant.has_ended(now) or "active",
        "made_at": rfc3339(grant.made_at),
        "made_by": grant.made_by,
        "expires_at": rfc3339(grant.expires_at),
        "last_used_at": rfc3339(access.used_at(grant.id)),
        "revoked_at": rfc3339(grant.revoked_at),
        "revoked_by": grant.revoked_by,
    }


def tokens_page(
    access: Authentication, grants: Sequence[TokenGrant], query: PageQuery, now: int
) -> Page:
    """Return a page of these tokens, the newest first."""
    place = None if query.cursor is None else (query.cursor.at, query.cursor.id)
    newest = sorted(grants, key=lambda each: (each.made_at, each.id), reverse=True)
    behind = [each for each in newest if place is None or (each.made_at, each.id) < place]
    page = behind[: query.limit]
    after = Cursor(page[-1].made_at, page[-1].id) if len(behind) > len(page) else None
    return Page(tuple(token_json(access, each, now) for each in page), after)
