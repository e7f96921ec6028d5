"""Renders a message in an endpoint's format; equal inputs give equal bytes.

`cloudevents` is the default, `raw` the body as it came, `mapped` what a JMESPath selects from the
CloudEvents document.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import jmespath

from ingress.formats.paths import expression_fault
from streams import user_json
from streams.delivery.message.bounded_mapping import (
    FUNCTIONS,
    MOST_DOCUMENT_BYTES,
    MOST_RESULT_BYTES,
    evaluate,
)
from streams.delivery.message.cloud_event import CONTENT_TYPE, OCTETS, cloud_event
from streams.delivery.message.message import Message
from streams.errors import MappingFailed
from streams.serde.delivery_records import MessageFormat as Format

__all__ = ["Format", "Rendered", "mapping_fault", "render"]

_HEADER_VALUE = re.compile(r"[!-~](?:[ -~]*[!-~])?")


@dataclass(frozen=True, slots=True)
class Rendered:
    """The body that every attempt sends, and its Content-Type."""

    body: bytes = field(repr=False)
    content_type: str


def mapping_fault(expression: str) -> str | None:
    """Why an expression cannot be an endpoint's `mapping`, or None.

    It is longer than 1,000 characters, no JMESPath, or calls an unknown function.
    """
    return expression_fault(expression) or _unknown_function(expression)


def render(message: Message, format_: Format, mapping: str | None) -> Rendered:
    """The message as the endpoint gets it; `mapping` is used by the format `mapped` alone.

    Raises:
        MappingFailed: the mapping finds nothing, fails or costs too much. It would each time.
    """
    if format_ == "raw":
        printable = _HEADER_VALUE.fullmatch(message.content_type) is not None
        return Rendered(message.data, message.content_type if printable else OCTETS)
    if format_ == "cloudevents":
        return Rendered(cloud_event(message), CONTENT_TYPE)
    return Rendered(_mapped(message, mapping), "application/json")


def _mapped(message: Message, mapping: str | None) -> bytes:
    if mapping is None:
        raise MappingFailed("the endpoint has no mapping: set one, or choose another format")
    if len(message.data) > MOST_DOCUMENT_BYTES:
        raise MappingFailed("the body is larger than 1 MiB: choose another format")
    result = evaluate(mapping, user_json.read(cloud_event(message)))
    try:
        body = user_json.write(result)
    except TypeError as error:  # also a reference to an expression
        raise MappingFailed(f"its result is no JSON ({error}): select other values") from error
    if len(body) > MOST_RESULT_BYTES:
        raise MappingFailed("its result is larger than 1 MiB: select less")
    return body


def _unknown_function(expression: str) -> str | None:
    unknown = sorted(_called(jmespath.compile(expression).parsed) - FUNCTIONS)
    return f"{unknown[0]}() is no function of JMESPath: correct its name" if unknown else None


def _called(node: Any) -> set[str]:
    """Names of the functions that a parsed expression calls."""
    own = {node["value"]} if node["type"] == "function_expression" else set()
    return own.union(*map(_called, node["children"]))
