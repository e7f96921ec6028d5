"""Body of the call that seals secrets again."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from streams.api.fields import Body

MOST_IN_PAGE = 1_000


class RewrapRequest(Body):
    """Body of `POST /v1/vault/rewrap`: without a limit, the call seals all that is left."""

    cursor: str | None = None
    limit: Annotated[int, Field(ge=1, le=MOST_IN_PAGE)] | None = None
