"""What the mappings of a topology file are made of."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=200)]
Text = Annotated[str, Field(min_length=1)]
Positive = Annotated[float, Field(gt=0, strict=True)]
Span = Annotated[float, Field(gt=0, le=1_000_000, strict=True)]
"""Days, hours or minutes that are no mistake, and of which Kafka can hold the milliseconds."""
Count = Annotated[int, Field(ge=1, strict=True)]


class Declared:
    """A mapping of the file without unknown keys; strict numbers, so that `"4"` is none."""

    __slots__ = ()
    __pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False)
