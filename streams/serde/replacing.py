"""`replace` for records with many fields, which a job's path calls several times a job.

A copy sets each field by its descriptor and needs no call of `__init__` with as many keywords,
which takes most of the time of `dataclasses.replace`.
"""

from __future__ import annotations

from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

__all__ = ["replace"]

if TYPE_CHECKING:
    from dataclasses import replace  # mypy checks the names of fields where it knows this one
else:
    from dataclasses import fields

    Record = TypeVar("Record")

    def replace(record: Record, /, **changes: Any) -> Record:
        """A copy of a frozen record with slots, with other values in some of its fields.

        Raises:
            TypeError: it has no such field, or its class does more than keep its fields.
        """
        get, places, setters = _layout(type(record))
        values = list(get(record))
        for name, value in changes.items():
            try:
                values[places[name]] = value
            except KeyError:
                raise TypeError(f"{type(record).__name__} has no field {name!r}") from None
        made = object.__new__(type(record))
        for set_, value in zip(setters, values, strict=True):
            set_(made, value)
        return made

    @cache
    def _layout(class_: type) -> tuple[attrgetter, dict[str, int], list[Any]]:
        names = [field.name for field in fields(class_)]
        if len(names) < 2 or "__slots__" not in vars(class_) or hasattr(class_, "__post_init__"):
            raise TypeError(f"{class_.__name__}: copy it with dataclasses.replace")
        setters = [getattr(class_, name).__set__ for name in names]
        return attrgetter(*names), {name: at for at, name in enumerate(names)}, setters
