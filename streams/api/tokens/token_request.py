"""The body of the call that makes a token."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from streams.access.permissions import CUSTOM, Permission
from streams.access.token_records import EVERY_TENANT
from streams.api.fields import Body, Name

DEFAULT_DAYS = 90
MOST_DAYS = 3_650
_MOST_TENANTS = 1_000
_MOST_PATTERNS = 100


class TokenRequest(Body):
    """Body of `POST /v1/tokens`: a name, a role or permissions, tenants and days until the end.

    Without `tenants`, the token has those of whoever makes it. `["*"]` are all tenants. `pools` and
    `job_types` are names or globs, and limit what a worker with the token may run.
    """

    name: Name
    role: Name | None = None
    permissions: Annotated[list[Permission], Field(min_length=1)] | None = None
    tenants: Annotated[list[Name], Field(min_length=1, max_length=_MOST_TENANTS)] | None = None
    pools: Annotated[list[Name], Field(min_length=1, max_length=_MOST_PATTERNS)] | None = None
    job_types: Annotated[list[Name], Field(min_length=1, max_length=_MOST_PATTERNS)] | None = None
    expires_days: Annotated[int, Field(ge=1, le=MOST_DAYS)] | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.role is None) == (self.permissions is None):
            raise ValueError("give either a role or permissions")
        if self.role == CUSTOM:
            raise ValueError("custom is no role: give permissions")
        if self.tenants is not None and EVERY_TENANT in self.tenants and len(self.tenants) > 1:
            raise ValueError("`*` are all tenants: give it alone")
        return self
