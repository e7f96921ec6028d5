"""The tokens that exist, as each operator follows them on `tenants`."""

from __future__ import annotations

from collections.abc import Mapping

from streams.access.permissions import ADMIN, CUSTOM, PERMISSIONS, complete, in_order
from streams.access.principal import Principal
from streams.access.token_records import KIND, USE, TokenGrant, grant_in, use_in
from streams.errors import PoisonRecord
from streams.serde import keys
from streams.serde.codec import TENANT

LISTED_MS = 30 * 86_400_000
"""How long a token is listed after its end."""


class AccessBook:
    """Tokens by id, and when each was used last.

    One thread folds records in, and any thread may ask. What this process writes it may fold in at
    once: an older record that is read after it changes nothing.
    """

    def __init__(self, roles: Mapping[str, frozenset[str]]) -> None:
        self.roles = roles
        self._grants: dict[str, tuple[int, TokenGrant | None]] = {}
        self._used: dict[str, int] = {}

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        """Fold in one record of `tenants`; records of other kinds change nothing.

        Raises:
            PoisonRecord: the record cannot be read. Its token opens nothing then.
        """
        try:
            tenant_id, kind, id_ = keys.split(key or b"")
        except ValueError:
            return  # the follower of the sources reports it
        if tenant_id or kind not in (KIND, USE):
            return
        if value is None:
            self._forget(kind, id_)
        elif kind == USE:
            self._note_use(id_, value)
        else:
            self._set(id_, value)

    def grant(self, token_id: str) -> TokenGrant | None:
        """Return a token, also one that has ended."""
        _, found = self._grants.get(token_id, (0, None))
        return found

    def grants(self) -> list[TokenGrant]:
        """Return all tokens, also those that have ended, in the order of their making."""
        found = [grant for _, grant in list(self._grants.values()) if grant is not None]
        return sorted(found, key=lambda grant: (grant.made_at, grant.id))

    def used_at(self, token_id: str) -> int | None:
        """Return when a token was used last, in milliseconds, about."""
        return self._used.get(token_id)

    def permissions(self, grant: TokenGrant) -> frozenset[str]:
        """Return what a token permits; a role that is declared no more permits nothing.

        A token that is limited to some pools or job types makes no tokens, whatever its role means
        now: it could make one without these limits.
        """
        of_role = self.roles.get(grant.role, frozenset())
        found = complete(grant.permissions) if grant.role == CUSTOM else of_role
        return found - {ADMIN} if grant.is_limited else found

    def principal(self, grant: TokenGrant) -> Principal:
        """Return who calls with a token."""
        permissions = self.permissions(grant)
        return Principal(grant.principal_id, grant.name, grant.role, permissions, grant.tenants)

    def administrators(self, now: int) -> list[TokenGrant]:
        """Return the tokens with which other tokens of any kind can be made.

        Nobody makes a token beyond their own rights, so such a token has all of them.
        """
        return [
            grant
            for grant in self.grants()
            if grant.has_ended(now) is None
            and grant.tenants is None
            and self.permissions(grant).issuperset(PERMISSIONS)
        ]

    def forgettable(self, now: int) -> list[str]:
        """Return tokens that ended so long ago that no list need show them any more."""
        return [grant.id for grant in self.grants() if grant.ended_at + LISTED_MS <= now]

    def permissions_json(self, grant: TokenGrant) -> list[str]:
        """Return what a token permits, in the order of the documentation."""
        return in_order(self.permissions(grant))

    def _set(self, token_id: str, value: bytes) -> None:
        try:
            record = TENANT.decode(value)
            if (record.tenant_id, record.kind, record.id) != ("", KIND, token_id):
                raise PoisonRecord("misaddressed", "the record's key names something else")
            grant = grant_in(record)
        except (PoisonRecord, ValueError, LookupError, TypeError) as error:
            self._grants[token_id] = (0, None)
            raise PoisonRecord("unusable", "a token cannot be read") from error
        before, _ = self._grants.get(token_id, (0, None))
        if record.updated_at >= before:
            self._grants[token_id] = (record.updated_at, grant)

    def _note_use(self, token_id: str, value: bytes) -> None:
        try:
            at = use_in(TENANT.decode(value))
        except (ValueError, LookupError, TypeError) as error:
            raise PoisonRecord("unusable", "the use of a token has no time") from error
        self._used[token_id] = max(at, self._used.get(token_id, 0))

    def _forget(self, kind: str, token_id: str) -> None:
        if kind == KIND:
            self._grants.pop(token_id, None)
        else:
            self._used.pop(token_id, None)
