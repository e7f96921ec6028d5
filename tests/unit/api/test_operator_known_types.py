"""A submission of a type that nothing is known to handle is answered with a warning."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.job_rows import fold
from support.operator_cluster import make_job

from streams.api.job_types.known import doubt_about
from streams.api.read_model.database import Database
from streams.topology.load import load
from streams.topology.model import Route

TOPOLOGY = replace(load(), routes=(Route("shop", "*", "answer_ticket", "webhook"),))


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    opened = Database(tmp_path / "m.sqlite").open_writer()
    yield opened
    opened.close()


def test_a_type_that_a_route_names_is_known(connection: sqlite3.Connection) -> None:
    assert doubt_about(connection, TOPOLOGY, "answer_ticket") is None


def test_a_misspelled_type_is_told_the_nearest_that_is_declared_or_has_run(
    connection: sqlite3.Connection,
) -> None:
    fold(
        connection,
        make_job("job_a", type="answer_tickets", status="succeeded"),
        make_job("job_b", type="answer_tiket"),
    )
    doubt = doubt_about(connection, TOPOLOGY, "answer_tiket")
    assert doubt is not None
    assert "Did you mean 'answer_ticket' or 'answer_tickets'?" in doubt
    assert "dead after 24 h" in doubt


def test_a_type_of_which_only_early_jobs_ran_is_known(connection: sqlite3.Connection) -> None:
    ran = make_job("job_0", type="export", status="succeeded", created_at=1)
    wait = (make_job(f"job_w{n}", type="export", created_at=2 + n) for n in range(150))
    fold(connection, ran, *wait)
    assert doubt_about(connection, TOPOLOGY, "export") is None


def test_a_type_unlike_all_others_is_doubted_without_a_guess(
    connection: sqlite3.Connection,
) -> None:
    doubt = doubt_about(connection, TOPOLOGY, "zzz")
    assert doubt is not None
    assert "Did you mean" not in doubt
