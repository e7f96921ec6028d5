"""The table of a job's states has every state, and its sets follow from the rows."""

from __future__ import annotations

from typing import get_args

from streams.serde import job_states
from streams.serde.job_states import JOB_STATES, NAMES, JobStatus


def test_each_state_has_one_row_and_one_constant() -> None:
    assert get_args(JobStatus) == NAMES
    assert {getattr(job_states, name.upper()) for name in NAMES} == set(NAMES)


def test_a_state_ends_a_job_or_says_how_the_job_goes_on() -> None:
    for state in JOB_STATES:
        goes_on = state.is_leased or state.waits_for is not None
        assert state.is_terminal != goes_on, state.name


def test_watching_ends_where_nothing_changes_unless_a_person_asks() -> None:
    watched = {state.name for state in JOB_STATES if state.exit_code is not None}
    assert watched == job_states.AT_REST


def test_what_is_in_the_dead_letters_has_ended_and_can_be_replayed() -> None:
    assert job_states.IN_DEAD_LETTERS <= job_states.TERMINAL & job_states.REPLAYABLE
