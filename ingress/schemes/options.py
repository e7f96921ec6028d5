"""Options of signing schemes, as a source's settings carry them: values without any crypto."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from streams.errors import SignatureError


class SchemeOptions(BaseModel):
    """Base of every scheme's options; an unknown option is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class ToleranceOptions(SchemeOptions):
    """`tolerance_seconds`: how far the signature's time may be from now, both ways."""

    tolerance_seconds: float | None = Field(default=None, gt=0)


Chosen = TypeVar("Chosen", bound=SchemeOptions)


def parse(model: type[Chosen], options: Mapping[str, Any]) -> Chosen:
    """Options checked against their model.

    Raises:
        SignatureError: an option is unknown or wrong. The message names it but not its value,
            which may be a secret put in the wrong place.
    """
    try:
        return model(**{str(name): value for name, value in options.items()})
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        said = first["msg"].removeprefix("Value error, ")
        if first["type"] == "extra_forbidden":
            known = ", ".join(model.model_fields) or "no options"
            said = f"there is none; this scheme takes {known}"
        raise SignatureError("bad_options", f"options.{name}: {said}") from None
