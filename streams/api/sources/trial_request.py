"""Body of the call that tests a source."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from streams.api.fields import Body


class SourceTrialRequest(Body):
    """Body of `POST .../test`; without a `sample`, the first of the source's scheme is sent."""

    sample: Annotated[str, Field(min_length=1, max_length=100)] | None = None
