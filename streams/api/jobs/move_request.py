"""Bodies of the calls that move waiting jobs to another pool."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from streams.api.fields import Body, Name, noted

Note = Annotated[str, noted("must say why it is moved")]


class MoveRequest(Body):
    """Body of `POST /v1/jobs/{id}/move`."""

    pool: Name
    note: Note


class BulkMoveRequest(MoveRequest):
    """Body of `POST /v1/jobs:move`: all waiting jobs of a type, a page at a time."""

    type: Name
    tenant_id: str | None = None
    limit: Annotated[int, Field(ge=1, le=5_000)] = 1_000
    cursor: str | None = None
    dry_run: bool = False
