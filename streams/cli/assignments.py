"""Options that change one entry of a map, as NAME=VALUE; an empty value removes the entry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import typer


def changed(kept: Mapping[str, Any], given: Sequence[str], flag: str) -> dict[str, Any]:
    """`kept` with each NAME=VALUE of `given`; an empty value removes the name.

    Raises:
        BadParameter: one has another form; names the flag.
    """
    found = dict(kept)
    for text in given:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint=flag)
        if value:
            found[name] = value
        else:
            found.pop(name, None)
    return found
