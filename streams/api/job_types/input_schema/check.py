"""Finds the fields of an input that do not fit a JSON schema."""

from __future__ import annotations

from functools import lru_cache
from itertools import islice
from typing import Any

import orjson
import structlog
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from referencing import Registry

from streams import user_json
from streams.api.job_types.input_schema.keywords import FORMATS, InputValidator, begin
from streams.model_faults import Fault

log = structlog.get_logger(__name__)

_MOST_NAMED = 20
_MOST_CHARS = 200
_TOLD = {
    "type": "must be of type {}",
    "const": "must be {}",
    "enum": "must be one of {}",
    "format": "must be a {}",
    "minimum": "must be at least {}",
    "exclusiveMinimum": "must be more than {}",
    "maximum": "must be at most {}",
    "exclusiveMaximum": "must be less than {}",
    "multipleOf": "must be a multiple of {}",
    "minLength": "must have at least {} characters",
    "maxLength": "must have at most {} characters",
    "minItems": "must have at least {} items",
    "maxItems": "must have at most {} items",
    "anyOf": "fits none of its types",
    "oneOf": "fits none of its types",
}
_OURS = frozenset({"required", "additionalProperties", "pattern"})
"""Keywords whose messages `keywords.py` writes."""


def misfits(schema: str, text: str) -> list[Fault]:
    """The fields of a JSON text that do not fit a schema, the first few; never with their values.

    An input that cannot be checked here has none: the worker checks it, too.
    """
    begin()
    try:
        found = _validator(schema).iter_errors(user_json.read(text))
        return [_fault(each) for each in islice(found, _MOST_NAMED)]
    except Exception as error:  # a schema may have anything that its author adds to it
        log.info("an input is left to the worker's check", reason=type(error).__name__)
        return []


@lru_cache(maxsize=256)
def _validator(schema: str) -> Any:
    """A validator, which reads no schema from elsewhere.

    Raises:
        SchemaError: it is no schema.
    """
    read = orjson.loads(schema)
    Draft202012Validator.check_schema(read)
    return InputValidator(read, registry=Registry(), format_checker=FORMATS)


def _fault(error: Any) -> Fault:
    deepest = best_match([error])
    field = ".".join(("input", *map(str, deepest.absolute_path)))
    return field[:_MOST_CHARS], _message(deepest)[:_MOST_CHARS]


def _message(error: Any) -> str:
    if error.validator in _OURS or (error.validator == "oneOf" and not error.context):
        return str(error.message)
    told = _TOLD.get(error.validator, f"must satisfy {error.validator} {{}}")
    wanted = error.validator_value
    return told.format(wanted if isinstance(wanted, str) else orjson.dumps(wanted).decode())
