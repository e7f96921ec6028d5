"""Bodies of the calls that decide about a cause."""

from __future__ import annotations

from typing import Annotated

from streams.api.fields import Body, Moment, noted


class CauseRequest(Body):
    """Body of the calls that resolve a cause or open it again."""

    note: Annotated[str, noted("must say why")]


class IgnoreRequest(CauseRequest):
    """Body of `POST /v1/causes/{id}/ignore`; at `until` the cause is open again."""

    until: Moment
