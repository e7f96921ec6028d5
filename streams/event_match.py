"""Which events a wait takes: equalities that an index finds, and conditions on what it finds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any

from ingress.formats.paths import compile_path, expression_fault
from streams import user_json
from streams.errors import PermanentError
from streams.serde.records import Envelope, EventInfo

_FIELDS = ("source", "event_type", "subject", "attributes", "where")
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
        given = {name: value for name, value in found.items() if value and value != "*"}
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
    return match_of(user_json.read(text))


def match_of(given: Mapping[str, Any]) -> EventMatch:
    """The match that an application gives as a mapping.

    Raises:
        PermanentError: it cannot be used; the message names the field and the remedy.
    """
    fault = _fault(given)
    if fault is not None:
        raise PermanentError(f"match: {fault}")
    attributes = tuple(sorted(given.get("attributes", {}).items()))
    plain = {name: given[name] for name in _FIELDS if name in given and name != "attributes"}
    return EventMatch(**plain, attributes=attributes)


def _fault(given: Mapping[str, Any]) -> str | None:
    """What is wrong with a match, or None."""
    attributes = given.get("attributes", {})
    if not isinstance(attributes, Mapping):
        return "attributes must map names to strings"
    for name in given:
        if name not in _FIELDS:
            return f"{name!r} is none of {', '.join(_FIELDS)}"
        if name != "attributes" and not _is_text(given[name]):
            return f"{name} must be a string of at least one character, without NUL"
    for name, value in attributes.items():
        if not _is_text(name) or not isinstance(value, str) or "\0" in value:
            return f"attributes: {name!r} must be a name, and its value a string without NUL"
    if "subject" not in given and not attributes:
        return "give a subject or an attribute that the event must have: waits are found by them"
    fault = expression_fault(given["where"]) if "where" in given else None
    return None if fault is None else f"where {fault}"


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != "" and "\0" not in value


_compiled = lru_cache(maxsize=256)(compile_path)
