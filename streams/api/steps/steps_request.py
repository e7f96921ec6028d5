"""Body of a decision about finished steps."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from streams.api.fields import Body, noted


class StepsRequest(Body):
    """Body of a decision; without `keep` and `drop` the job runs again as it is."""

    keep: list[str] = Field(default_factory=list)
    drop: list[str] = Field(default_factory=list)
    note: Annotated[str, noted("must say why")]

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        if len({*self.keep, *self.drop}) < len(self.keep) + len(self.drop):
            raise ValueError("name each step once, in keep or in drop")
        return self
