"""What a form asks for: its fields as the JSON body of a call, and how the console goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from streams.api.refusal import invalid

_OF_CONSOLE = frozenset({"csrf", "call", "key", "tag", "then", "back", "show"})


@dataclass(frozen=True, slots=True)
class Form:
    """One call, as a form of a page sends it.

    `key` is for `Idempotency-Key`, `tag` for `If-Match`. After the call the browser goes to `then`,
    in which `{name}` stands for a member of the answer; `back` is the page with the form. An answer
    that is shown only once, such as one with a secret, is shown at once instead if `show` is set.
    """

    method: str
    target: str
    fields: Mapping[str, str]
    key: str = ""
    tag: str = ""
    then: str = ""
    back: str = "/console"
    show: bool = False

    def body(self) -> bytes:
        """Return the JSON body of the call.

        Raises:
            Refusal: 422, a field has not the form that its name asks for.
        """
        return orjson.dumps(as_json(self.fields))


def read(given: Mapping[str, str]) -> Form:
    """Return what a form asks for."""
    method, _, target = given.get("call", "").partition(" ")
    fields = {name: value for name, value in given.items() if name not in _OF_CONSOLE}
    return Form(
        method,
        target,
        fields,
        key=given.get("key", ""),
        tag=given.get("tag", ""),
        then=given.get("then", ""),
        back=given.get("back", "/console"),
        show="show" in given,
    )


def as_json(fields: Mapping[str, str]) -> dict[str, Any]:
    """Return fields as an object: `a.b` lies in the member `a`, and empty ones are left out.

    A name may end with what its value is, if it is no text: `:int`, `:number`, `:bool`, `:json`, or
    `:list`, one item a line. The field `:json` has members of the object itself.

    Raises:
        Refusal: 422, a value is not of its kind.
    """
    found: dict[str, Any] = {}
    for name, value in fields.items():
        path, _, kind = name.partition(":")
        if value.strip() == "":
            continue
        if path == "":
            found |= _members(_value("body", kind, value))
            continue
        *above, last = path.split(".")
        inner = found
        for part in above:
            inner = inner.setdefault(part, {})
        inner[last] = _value(path, kind, value)
    return found


def _members(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise invalid("body", "must be a JSON object")
    return value


def _value(path: str, kind: str, text: str) -> Any:
    try:
        match kind:
            case "int":
                return int(text)
            case "number":
                return float(text)
            case "bool":
                return text.strip() in ("on", "true", "yes")
            case "json":
                return orjson.loads(text)
            case "list":
                return [each.strip() for each in text.splitlines() if each.strip()]
    except ValueError as error:
        what = {"int": "a whole number", "number": "a number", "json": "JSON"}[kind]
        raise invalid(path, f"must be {what}: {error}") from None
    # A browser ends the lines of a text with CR and LF, whatever was typed.
    return text.replace("\r\n", "\n")
