"""Dead letters in the read model, each with the jobs that were made of its own."""

from __future__ import annotations

import sqlite3

from streams.operator.http.letter_views import Replayed, dead_letter_json
from streams.operator.http.views import Json
from streams.operator.read_model.cursor import Cursor
from streams.operator.read_model.paging import newest
from streams.serde.codec import DEAD_LETTER
from streams.serde.records import DeadLetter

_MOST_REPLAYS = 100
"""At most this many replays of one job are named."""


def dead_letters_page(
    connection: sqlite3.Connection, equal: dict[str, str | None], limit: int, cursor: Cursor | None
) -> tuple[tuple[Json, ...], Cursor | None]:
    """Dead letters newest first, and the cursor behind the last; `equal` holds column filters."""
    rows, after = newest(connection, "dead_letters", ("at", "id"), equal, limit, cursor)
    letters = (DEAD_LETTER.decode(record) for _, _, record in rows)
    return tuple(shown_letter(connection, each) for each in letters), after


def shown_letter(connection: sqlite3.Connection, letter: DeadLetter) -> Json:
    """A dead letter as lists show it, with the jobs that were made of its own."""
    row = connection.execute(
        "SELECT status FROM jobs WHERE job_id = ? AND tenant_id = ?",
        (letter.replayed_as, letter.tenant_id),
    ).fetchone()
    made = replays(connection, letter.tenant_id, letter.id)
    return dead_letter_json(letter, made, row[0] if row else None)


def replays(connection: sqlite3.Connection, tenant_id: str, job_id: str) -> tuple[Replayed, ...]:
    """Jobs made of this one, newest first."""
    rows = connection.execute(
        "SELECT job_id, status, created_at FROM jobs WHERE replay_of = ? AND tenant_id = ?"
        " ORDER BY created_at DESC, job_id DESC LIMIT ?",
        (job_id, tenant_id, _MOST_REPLAYS),
    )
    return tuple(Replayed(*row) for row in rows)


def dead_letter(connection: sqlite3.Connection, id_: str) -> DeadLetter | None:
    """One dead letter, by job id or by stage:topic:partition:offset."""
    row = connection.execute("SELECT record FROM dead_letters WHERE id = ?", (id_,)).fetchone()
    return None if row is None else DEAD_LETTER.decode(row[0])
