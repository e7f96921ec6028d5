"""A type of an application by which JSON is checked, and its JSON schema."""

from __future__ import annotations

import json
import re
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError
from pydantic_core import PydanticSerializationError, SchemaError

from streams import user_json
from streams.errors import ConfigError, PermanentError
from streams.model_faults import Fault, faults
from streams.worker.typed.copies import costly_faults
from streams.worker.typed.long_names import are_too_long
from streams.worker.typed.unions import exponential_union

_NAMED, _MOST_CHARS = 10, 200
_MOST_LISTED, _MOST_LISTED_CHARS = 10_000, 50_000_000
"""A list of more faults would take too much memory: a body has up to a million values."""
_UNEXPECTED = re.compile(r"\[field_name='([^']+)'")
"""How pydantic names the field of a value that it cannot write as the field's type."""

_MODULE = re.compile(r"\b\w+\.")

Side = Literal["input", "result"]


class Model:
    """The type of a job type's inputs or results.

    It is a pydantic model, a dataclass, a `TypedDict`, or any other type of which pydantic makes a
    schema. The schema of an input is what is accepted, that of a result what is kept.

    Raises:
        ConfigError: pydantic cannot make a schema of it; the message says why.
        NameError: it names a type that is not defined yet.
    """

    def __init__(self, annotation: Any, what: str, side: Side) -> None:
        self.name = _name_of(annotation)[:_MOST_CHARS]
        self._side = side
        try:
            self._adapter: TypeAdapter[Any] = TypeAdapter(annotation)
            self._adapter.rebuild()  # it defers what names types that are not defined yet
            described = self._described()
            self.schema = user_json.write(described).decode()
        except PydanticUndefinedAnnotation:
            raise
        except (PydanticUserError, SchemaError, TypeError) as error:
            told = f"{what}: the {side} {self.name} cannot be a type of JSON: {error}"
            raise ConfigError(told) from error
        # A message may have all that the type allows, such as each member of an enum.
        self._most_listed = min(_MOST_LISTED, _MOST_LISTED_CHARS // len(self.schema))
        again = exponential_union(described) if side == "input" else None
        if again is not None:
            raise ConfigError(
                f"{what}: the check of the input {self.name} takes exponential time, because "
                f"several members of a union in {again} hold it again in one field. Give it a "
                "discriminator (pydantic.Field(discriminator=...))"
            )

    def read(self, text: str) -> Any:
        """The value of a JSON text, as this type has it.

        Raises:
            PermanentError: it does not fit; the message names each field, and no value.
        """
        return self._read(user_json.read(text), text)

    def read_document(self, document: object) -> Any:
        """The value of plain JSON, as this type has it.

        Raises:
            PermanentError: as `read`.
        """
        try:
            text = json.dumps(document)  # not orjson: its integers have 64 bits at most
        except RecursionError:
            raise self._misfit([(self._side, "is nested too deep")], 1) from None
        return self._read(document, text)

    def dump(self, value: object) -> Any:
        """The plain JSON of a value of this type.

        Raises:
            PermanentError: it is none; the message names each field, and no value.
        """
        try:
            checked = self._adapter.validate_python(value)
            return self._adapter.dump_python(checked, mode="json", by_alias=True, warnings="error")
        except ValidationError as error:
            raise self._misfit(*self._found(error)) from None
        except PydanticSerializationError as error:
            fields = _UNEXPECTED.findall(str(error))
            told = [(field, "has a value of another type") for field in fields]
            told = told or [(self._side, "cannot be written as JSON")]
            raise self._misfit(told, len(told)) from None

    def _read(self, document: object, text: str) -> Any:
        if are_too_long(document, text):
            raise self._misfit([(self._side, "has too long names for so many values")], 1)
        costly = costly_faults(self._adapter, document, text, self._most_listed)
        if costly is not None:
            raise self._misfit(*self._found(costly))
        try:
            return self._adapter.validate_json(text)
        except ValidationError as error:
            raise self._misfit(*self._found(error)) from None

    def _found(self, error: ValidationError) -> tuple[list[Fault], int]:
        """The faults, as far as they may be listed, and how many there are."""
        count = error.error_count()
        return (faults(error, self._side) if count <= self._most_listed else []), count

    def _described(self) -> dict[str, Any]:
        if self._side == "result":
            return self._adapter.json_schema(mode="serialization", by_alias=True)
        return self._adapter.json_schema()

    def _misfit(self, found: list[Fault], count: int) -> PermanentError:
        named = [f"{field[:_MOST_CHARS]}: {told[:_MOST_CHARS]}" for field, told in found[:_NAMED]]
        more = [f"{count - len(named):,} more faults"] if count > len(named) else []
        told = "; ".join(named + more)
        return PermanentError(f"the {self._side} does not fit {self.name}: {told}")


def _name_of(annotation: Any) -> str:
    """A type as its author writes it, without modules and without what `Annotated` adds."""
    bare = getattr(annotation, "__origin__", annotation)
    annotation = bare if hasattr(annotation, "__metadata__") else annotation
    if isinstance(annotation, type):
        return annotation.__name__
    return _MODULE.sub("", str(annotation))
