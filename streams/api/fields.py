"""Fields that several calls have in their bodies: names, notes, times, links and stored JSON."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from streams import user_json
from streams.api.refusal import Refusal, invalid, invalid_model
from streams.http.moments import milliseconds
from streams.tenants.settings import NAME

M = TypeVar("M", bound=BaseModel)

MAX_NOTE_BYTES = 4_096
_MAX_LINK_CHARACTERS = 2_048
_PRINTABLE = r"^[^\x00-\x1f\x7f]+$"

Name = Annotated[str, Field(min_length=1, max_length=255, pattern=_PRINTABLE)]


class Body(BaseModel):
    """The JSON object of a request; unknown fields and values of another type are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    def digest(self) -> bytes:
        """Return the SHA-256 of the request's canonical JSON: keys sorted, defaults filled in."""
        return hashlib.sha256(user_json.write(self.model_dump(), sort_keys=True)).digest()


def validated(body: Any, model: type[M]) -> M:
    """Return a JSON object as a model.

    Raises:
        Refusal: 422 naming each field at fault.
    """
    if not isinstance(body, dict):
        raise invalid("body", "must be a JSON object")
    try:
        return model.model_validate(body)
    except ValidationError as error:
        raise invalid_model(error) from None


def checked_name(part: str, name: str) -> str:
    """Return a name under which something is created; `part` is its place in the path.

    Raises:
        Refusal: 422, it is no name.
    """
    if not NAME.fullmatch(name):
        raise invalid(
            part,
            f"{name!r} is no name: use 1 to 64 letters, digits, `_`, `.` and "
            "`-`, beginning with a letter or digit",
        )
    return name


def bounded(note: str) -> str:
    """Return the note; it is bounded because it is part of records that must fit a message.

    Raises:
        ValueError: it is too long.
    """
    if (size := len(note.encode())) > MAX_NOTE_BYTES:
        raise ValueError(f"has {size} bytes, at most {MAX_NOTE_BYTES} are kept")
    return note


def noted(must: str) -> AfterValidator:
    """Return a validator that strips a note; `must` is the error for a blank one."""

    def check(note: str) -> str:
        if not note.strip():
            raise ValueError(must)
        return bounded(note.strip())

    return AfterValidator(check)


def _moment(text: str) -> str:
    milliseconds(text)
    return text


def _web_link(url: str) -> str:
    parts = urlsplit(url)
    if (
        parts.scheme not in ("http", "https")
        or not parts.hostname
        or len(url) > _MAX_LINK_CHARACTERS
    ):
        raise ValueError("must be an absolute http or https link")
    if parts.username is not None or parts.password is not None:
        raise ValueError("must not carry a user or password")
    return url


def _writable(value: Any) -> Any:
    try:
        user_json.write([[value]])
    except TypeError as error:
        raise ValueError(f"cannot be kept as it is: {error}") from None
    return value


Moment = Annotated[str, AfterValidator(_moment)]
"""An RFC 3339 time as text; `milliseconds` reads it."""
WebLink = Annotated[str, AfterValidator(_web_link)]
"""A link for later use: its host is checked when the link is dialled."""
Writable = Annotated[Any, AfterValidator(_writable)]
"""JSON that can also be written inside the object that holds it."""


def stored_json(value: Any, field: str, most: int) -> str:
    """Return a value as the JSON text that is kept, which can be longer than the text sent.

    Raises:
        Refusal: 413, it has more than `most` bytes.
    """
    text = user_json.write(value)
    if len(text) > most:
        raise Refusal(
            413,
            "body-too-large",
            f"{field} has {len(text)} bytes as JSON that is kept, "
            f"at most {most} are taken: store it and send a link",
        )
    return text.decode()
