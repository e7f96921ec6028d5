"""What ends sessions before their time, as the topic `tenants` carries it.

A session lies in its cookie alone, so an operator must know which ones it may not take any more. A
record names either one session, or a person and a time: that person's sessions from before that
time have ended. Records are under no tenant, and each operator follows them.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Literal

import orjson

from streams.access.session import ABSOLUTE_MS, Session
from streams.errors import PoisonRecord
from streams.serde import keys
from streams.serde.codec import TENANT
from streams.serde.records import TenantRecord

KIND: Literal["session_end"] = "session_end"
Key = tuple[str, str, str]

_OF_SESSION = "session:"


@dataclass(frozen=True, slots=True)
class SessionEnd:
    """The end of a person's sessions that began before `before` (ms), or of the one `session`."""

    person: str
    before: int
    by: str
    note: str = ""
    session: str | None = None

    @property
    def key(self) -> Key:
        """The key of its record; a person's newest end replaces the one before."""
        return ("", KIND, self.person if self.session is None else _OF_SESSION + self.session)

    def record(self) -> TenantRecord:
        body = {"person": self.person, "before": self.before, "by": self.by, "note": self.note}
        text = orjson.dumps(body).decode()
        _, _, id_ = self.key
        return TenantRecord("", KIND, id_, disabled=False, body=text, updated_at=self.before)


def end_of(session: Session, now: int, by: str) -> SessionEnd:
    """Return the end of one session."""
    return SessionEnd(session.person, now, by, session=session.id)


def end_of_all(person: str, now: int, by: str, note: str) -> SessionEnd:
    """Return the end of all sessions that a person has now."""
    return SessionEnd(person, now, by, note)


class SessionEnds:
    """The ends that are known; any thread may ask.

    One thread folds them in. What this process writes it may fold in at once: an older end of the
    same person that is read after it changes nothing.
    """

    def __init__(self) -> None:
        self._ends: dict[str, int] = {}
        self._lock = threading.Lock()

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        """Fold in one record of `tenants`; records of other kinds change nothing.

        Raises:
            PoisonRecord: an end that cannot be decoded.
        """
        try:
            _, kind, id_ = keys.split(key or b"")
        except ValueError:
            return
        if kind != KIND:
            return
        before = None if value is None else _before(TENANT.decode(value))
        with self._lock:
            if before is None:
                self._ends.pop(id_, None)
            else:
                self._ends[id_] = max(before, self._ends.get(id_, before))

    def has_ended(self, session: Session) -> bool:
        """Return whether a session has ended before its time."""
        if _OF_SESSION + session.id in self._ends:
            return True
        return session.started_at <= self._ends.get(session.person, -1)

    def forgettable(self, now: int) -> list[Key]:
        """Return keys of records that end nothing any more: their sessions are over anyway."""
        with self._lock:
            over = [id_ for id_, before in self._ends.items() if before + ABSOLUTE_MS < now]
        return [("", KIND, id_) for id_ in over]


def _before(record: TenantRecord) -> int:
    try:
        return int(orjson.loads(record.body)["before"])
    except (ValueError, TypeError, KeyError):
        raise PoisonRecord("unusable", "the end of a session has no time") from None
