"""Which events a wait takes: equalities that an index finds, and conditions on what it finds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from math import prod
from typing import Any

import jmespath

from ingress.formats.paths import compile_path, expression_fault
from streams import user_json
from streams.errors import PermanentError
from streams.serde.records import Envelope, EventInfo

_FIELDS = ("source", "event_type", "subject", "attributes", "where")
_MOST_CHARS, _MOST_GROWTH = 2_000, 10_000
_SUBJECT, _ATTRIBUTE = "subject", "attributes."


@dataclass(frozen=True, slots=True)
class EventMatch:
    """`source` and `event_type` are globs, `subject` and `attributes` equalities.

    `where` is a JMESPath expression on the event's fields, as `EventInfo` has them.
    """

    source: str = "*"
    event_type: str = "*"
    subject: str | None = None
    attributes: tuple[tuple[str, str], ...] = ()
    where: str | None = None

    @property
    def equality(self) -> tuple[str, str]:
        """The field and value by which an index finds the wait."""
        if self.subject is not None:
            return _SUBJECT, self.subject
        name, value = self.attributes[0]
        return _ATTRIBUTE + name, value

    def takes_type(self, source: str, event_type: str) -> bool:
        """Whether it can take an event of a source and type."""
        return fnmatchcase(source, self.source) and fnmatchcase(event_type, self.event_type)

    def takes(self, event: EventInfo) -> bool:
        """Whether it takes an event."""
        return (
            self.takes_type(event.source, event.event_type)
            and self.subject in (None, event.subject)
            and all(event.attributes.get(name) == value for name, value in self.attributes)
            and (self.where is None or bool(_compiled(self.where)(asdict(event))))
        )

    def text(self) -> str:
        """The match as JSON, without what it leaves open."""
        found = asdict(self) | {"attributes": dict(self.attributes)}
        open_ = [name for name in ("source", "event_type") if found[name] == "*"]
        given = {name: value for name, value in found.items() if value and name not in open_}
        return user_json.write(given, sort_keys=True).decode()


def equalities(event: EventInfo | Envelope) -> Iterator[tuple[str, str]]:
    """The fields and values of an event by which an index finds waits."""
    if event.subject is not None and "\0" not in event.subject:
        yield _SUBJECT, event.subject
    for name, value in event.attributes.items():
        if "\0" not in name + value:  # no match has one: it separates the parts of keys
            yield _ATTRIBUTE + name, value


def event_info(envelope: Envelope) -> EventInfo:
    """What a handler sees of an event."""
    return EventInfo(**{name: getattr(envelope, name) for name in EventInfo.__dataclass_fields__})


@lru_cache(maxsize=4096)
def read_match(text: str) -> EventMatch:
    """The match in JSON text; raises what `match_of` raises."""
    try:
        given = user_json.read(text)
    except ValueError as error:
        raise PermanentError(f"match: it is no JSON: {error}") from error
    return match_of(given)


def match_of(given: Mapping[str, Any]) -> EventMatch:
    """The match that an application gives as a mapping.

    Raises:
        PermanentError: it cannot be used; the message names the field and the remedy.
    """
    if not isinstance(given, Mapping):
        raise PermanentError(f"match: {given!r} maps no fields to what they must be")
    fault = _fault(given)
    if fault is not None:
        raise PermanentError(f"match: {fault}")
    attributes = tuple(sorted(given.get("attributes", {}).items()))
    plain = {name: given[name] for name in _FIELDS if name in given and name != "attributes"}
    return EventMatch(**plain, attributes=attributes)


def _fault(given: Mapping[str, Any]) -> str | None:
    """What is wrong with a match, or None."""
    attributes = given.get("attributes", {})
    for name in given:
        if name not in _FIELDS:
            return f"{name!r} is none of {', '.join(_FIELDS)}"
        if name != "attributes" and not _is_text(given[name]):
            return f"{name} must be a string of 1 to {_MOST_CHARS:,} characters, without NUL"
    fault = _attributes_fault(attributes)
    if fault is not None:
        return f"attributes {fault}"
    if "subject" not in given and not attributes:
        return "give a subject or an attribute that the event must have: waits are found by them"
    fault = _where_fault(given["where"]) if "where" in given else None
    return None if fault is None else f"where {fault}"


def _attributes_fault(attributes: object) -> str | None:
    if not isinstance(attributes, Mapping):
        return "must map names to strings"
    for name, value in attributes.items():
        if not _is_text(name) or (value != "" and not _is_text(value)):
            return f"{name!r} must be a name, and its value a string without NUL"
    chars = sum(len(name) + len(value) for name, value in attributes.items())
    return f"have more than {_MOST_CHARS:,} characters" if chars > _MOST_CHARS else None


def _where_fault(where: str) -> str | None:
    fault = expression_fault(where)
    if fault is None and _growth(jmespath.compile(where).parsed) > _MOST_GROWTH:
        return "makes too many lists of lists: it would take too long"
    return fault


def _growth(node: Mapping[str, Any]) -> int:
    """How many times larger than the event a value of an expression may become, at most."""
    children = [each for each in node["children"] if isinstance(each, Mapping)]
    own = len(children) if node["type"].startswith("multi_select") else 1
    return max(own, 1) * prod(map(_growth, children))


def _is_text(value: object) -> bool:
    if not isinstance(value, str) or not 0 < len(value) <= _MOST_CHARS or "\0" in value:
        return False
    return value.isascii() or value.encode(errors="ignore").decode() == value  # no lone surrogate


_compiled = lru_cache(maxsize=256)(compile_path)
