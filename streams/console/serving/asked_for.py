"""What a form asks for: its fields as the JSON body of a call, and how the console goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from streams import user_json
from streams.api.refusal import Refusal, invalid
from streams.api.session.next_path import is_path_here

_ENCODING = "application/x-www-form-urlencoded"
_OF_CONSOLE = frozenset({"csrf", "call", "key", "tag", "then", "back", "show", "said"})

_MOST_FIELDS = 200


@dataclass(frozen=True, slots=True)
class Form:
    """One call, as a form of a page sends it.

    `key` is for `Idempotency-Key`, `tag` for `If-Match`. After the call the browser goes to `then`,
    in which `{name}` stands for a member of the answer; `back` is the page with the form. If `show`
    is set, the answer itself is shown, by the page of that name. `said` is what the button says.
    """

    method: str
    target: str
    fields: Mapping[str, str]
    key: str = ""
    tag: str = ""
    then: str = ""
    back: str = "/console"
    show: str = ""
    said: str = ""

    def typed(self, name: str) -> str:
        """Return the JSON of a field as a page shows it, where odd characters are escapes.

        It is the same JSON: they stand in its strings alone. Line ends are those before a browser.
        """
        return self.fields.get(name, "").replace("\r\n", "\n")

    def body(self) -> bytes:
        """Return the JSON body of the call.

        Raises:
            Refusal: 422, a field has not the form that its name asks for.
        """
        try:
            return user_json.write(as_json(self.fields))
        except TypeError as error:
            raise invalid("body", f"cannot be sent as JSON: {error}") from None


async def sent(request: web.Request) -> dict[str, str]:
    """Return the fields of a form that a browser sends; of several with one name, the last.

    Raises:
        Refusal: 415, it is no form of a page; 400, it is not encoded as it says; 413, it is larger
            than any that a page sends.
    """
    if request.content_type != _ENCODING:
        raise Refusal(415, "no-form", f"a page sends its forms as {_ENCODING}")
    try:
        if (await request.read()).count(b"&") >= _MOST_FIELDS:
            raise Refusal(413, "form-too-large", f"a form has {_MOST_FIELDS} fields at most")
        given = await request.post()
    except web.HTTPRequestEntityTooLarge as error:
        told = f"{error.text} What is longer is sent by the command line."
        raise Refusal(413, "body-too-large", told) from None
    except (ValueError, LookupError) as error:
        raise Refusal(400, "malformed-form", f"the form cannot be read: {error}") from None
    return {name: value for name, value in given.items() if isinstance(value, str)}


def read(given: Mapping[str, str]) -> Form:
    """Return what a form asks for; another site's form may name any page to go back to."""
    back = given.get("back", "")
    method, _, target = given.get("call", "").partition(" ")
    fields = {name: value for name, value in given.items() if name not in _OF_CONSOLE}
    return Form(
        method,
        target,
        fields,
        key=given.get("key", ""),
        tag=given.get("tag", ""),
        then=given.get("then", ""),
        back=back if is_path_here(back) else "/console",
        show=given.get("show", ""),
        said=given.get("said", ""),
    )


def as_json(fields: Mapping[str, str]) -> dict[str, Any]:
    """Return fields as an object: `a.b` lies in the member `a`, and empty ones are left out.

    A name may end with what its value is, if it is no text: `:int`, `:number`, `:bool`, `:json`, or
    `:list`, one item a line. The field `:json` has members of the object itself.

    Raises:
        Refusal: 422, a value is not of its kind, or is a text of blanks: left out, a filter would
            select more than its list shows.
    """
    found: dict[str, Any] = {}
    for name, value in fields.items():
        path, _, kind = name.partition(":")
        if value == "" or (kind and value.strip() == ""):
            continue
        if value.strip() == "":
            raise invalid(path, "is blank")
        if path == "":
            found |= _members(_value("body", kind, value))
            continue
        *above, last = path.split(".")
        inner = found
        for part in above:
            inner = inner.setdefault(part, {})
            if not isinstance(inner, dict):
                raise invalid(path, "lies in a field that has a value already")
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
                return user_json.read(text)
            case "list":
                return [each.strip() for each in text.splitlines() if each.strip()]
    except ValueError as error:
        what = {"int": "a whole number", "number": "a number", "json": "JSON"}[kind]
        raise invalid(path, f"must be {what}: {error}") from None
    # A browser ends the lines of a text with CR and LF, whatever was typed.
    return text.replace("\r\n", "\n")
