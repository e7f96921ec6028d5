"""The filters of bulk acts: a body of filters, and the SQL that it becomes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated, Any

import orjson
from pydantic import Field

from streams.api.bulk.action import Condition
from streams.api.fields import Body, Moment, Name
from streams.api.rows.paging import Listing
from streams.http.moments import milliseconds

Ids = Annotated[list[Name], Field(min_length=1, max_length=10_000)]


class Selecting(Body):
    """What every filter may name: ids, a tenant, and times of which `until` is excluded."""

    ids: Ids | None = None
    tenant_id: Name | None = None
    since: Moment | None = None
    until: Moment | None = None


def condition(
    listing: Listing, id_: str, at: str, also: Mapping[str, str] | None = None
) -> Callable[[Selecting], Condition]:
    """Return what makes SQL of a filter: that of a list, with ids and times of these columns."""
    extended = replace(
        listing,
        conditions={
            **listing.conditions,
            "ids": f"{id_} IN (SELECT value FROM json_each(?))",  # noqa: S608  a column
            "since": f"{at} >= ?",
            "until": f"{at} < ?",
            **(also or {}),
        },
    )

    def made(chosen: Selecting) -> Condition:
        given: dict[str, Any] = chosen.model_dump(exclude_none=True)
        if chosen.ids is not None:
            given["ids"] = orjson.dumps(chosen.ids).decode()
        for name in ("since", "until"):
            if name in given:
                given[name] = milliseconds(given[name])
        return extended.condition(given)

    return made
