"""Body of the call that makes an event's job, unless it has one."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from streams.api.fields import Body, noted

Text = Annotated[str, Field(min_length=1, max_length=512)]


class RouteRequest(Body):
    """Body of `POST /v1/tenants/{t}/events:route`: the event's source and dedup key."""

    source: Text
    dedup_key: Text
    note: Annotated[str, noted("must say why it gets its job now")]
