"""What a token grants, as the topic `tenants` carries it: a record for each token.

The records are under no tenant, in one partition, and every operator follows them. The last use of
a token has a record of its own, so that no operator that notes a use can bring back a token that
another one has just revoked.
"""

from __future__ import annotations

import binascii
from dataclasses import dataclass, replace
from typing import Any, Literal

import orjson

from streams.access.permissions import PERMISSIONS
from streams.serde.records import TenantRecord

KIND: Literal["token"] = "token"
USE: Literal["token_use"] = "token_use"
PARTITION = 0
"""Where all these records are."""
EVERY_TENANT = "*"

Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class TokenGrant:
    """A token without its secret; times in milliseconds.

    It has either a role or, with the role `custom`, permissions of its own. `tenants` is None for
    all of them. `digest` is of the secret. `pools` and `job_types` are names or globs of what a
    worker with the token may run; None is all.
    """

    id: str
    name: str
    role: str
    permissions: frozenset[str]
    tenants: frozenset[str] | None
    digest: bytes
    made_at: int
    made_by: str
    expires_at: int
    revoked_at: int | None = None
    revoked_by: str | None = None
    pools: tuple[str, ...] | None = None
    job_types: tuple[str, ...] | None = None

    @property
    def is_limited(self) -> bool:
        """Whether a worker with the token may run only some pools or job types."""
        return self.pools is not None or self.job_types is not None

    @property
    def key(self) -> Key:
        """The key of its record."""
        return "", KIND, self.id

    @property
    def principal_id(self) -> str:
        """Whose name is in the records of what is done with the token."""
        return f"token:{self.id}"

    def has_ended(self, now: int) -> Literal["expired", "revoked"] | None:
        """Return why the token opens nothing any more; None if it is good."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at <= now else None

    @property
    def ended_at(self) -> int:
        """When it ends, or has ended."""
        return self.expires_at if self.revoked_at is None else min(self.revoked_at, self.expires_at)

    def revoked(self, at: int, by: str) -> TokenGrant:
        """Return the token after its end."""
        return replace(self, revoked_at=at, revoked_by=by)

    def record(self, at: int) -> TenantRecord:
        """Return the record that says so; `at` is its time."""
        body = {
            "name": self.name,
            "role": self.role,
            "permissions": sorted(self.permissions),
            "tenants": [EVERY_TENANT] if self.tenants is None else sorted(self.tenants),
            "digest": self.digest.hex(),
            "made_at": self.made_at,
            "made_by": self.made_by,
            "expires_at": self.expires_at,
            "revoked_at": self.revoked_at,
            "revoked_by": self.revoked_by,
            "pools": self.pools,
            "job_types": self.job_types,
        }
        is_over = self.revoked_at is not None
        text = orjson.dumps(body).decode()
        return TenantRecord("", KIND, self.id, is_over, text, updated_at=at)


def grant_in(record: TenantRecord) -> TokenGrant:
    """Return what a record grants.

    Raises:
        ValueError, LookupError, TypeError: it grants nothing that is known.
    """
    body = orjson.loads(record.body)
    return TokenGrant(
        id=record.id,
        name=str(body["name"]),
        role=str(body["role"]),
        permissions=frozenset(body["permissions"]) & frozenset(PERMISSIONS),
        tenants=_tenants(body["tenants"]),
        digest=binascii.unhexlify(body["digest"]),
        made_at=int(body["made_at"]),
        made_by=str(body["made_by"]),
        expires_at=int(body["expires_at"]),
        revoked_at=body["revoked_at"],
        revoked_by=body["revoked_by"],
        pools=_patterns(body.get("pools")),
        job_types=_patterns(body.get("job_types")),
    )


def use_record(token_id: str, at: int) -> TenantRecord:
    """Return the record of a token's last use."""
    return TenantRecord("", USE, token_id, False, orjson.dumps({"at": at}).decode(), updated_at=at)


def use_in(record: TenantRecord) -> int:
    """Return when a token was used.

    Raises:
        ValueError, LookupError, TypeError: the record does not say it.
    """
    return int(orjson.loads(record.body)["at"])


def _tenants(given: Any) -> frozenset[str] | None:
    names = _names(given)
    return None if EVERY_TENANT in names else frozenset(names)


def _patterns(given: Any) -> tuple[str, ...] | None:
    """Return names or globs; a record of an earlier release has none, which allows each."""
    return None if given is None else _names(given)


def _names(given: Any) -> tuple[str, ...]:
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        raise TypeError("this is no list of names")
    return tuple(given)
