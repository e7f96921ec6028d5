"""The tables of states have every state, and the sets follow from the rows."""

from __future__ import annotations

from types import ModuleType
from typing import Any, get_args

import pytest

from streams.serde import delivery_states, effect_states, job_states, run_ends
from streams.serde.job_states import JOB_STATES


@pytest.mark.parametrize(
    ("module", "declared", "listed"),
    [
        (job_states, job_states.JobStatus, job_states.NAMES),
        (delivery_states, delivery_states.DeliveryStatus, delivery_states.NAMES),
        (delivery_states, delivery_states.ParkedBecause, None),
        (delivery_states, delivery_states.Circuit, None),
        (delivery_states, delivery_states.DisabledBecause, None),
        (effect_states, effect_states.EffectStatus, None),
        (run_ends, run_ends.RunEnd, None),
        (run_ends, run_ends.AttemptKind, None),
    ],
)
def test_each_state_has_one_constant_and_one_row(
    module: ModuleType, declared: Any, listed: tuple[str, ...] | None
) -> None:
    names = get_args(declared)
    assert [getattr(module, name.upper()) for name in names] == list(names)
    assert listed in (None, names)


def test_a_state_ends_a_job_or_says_how_the_job_goes_on() -> None:
    for state in JOB_STATES:
        goes_on = state.is_leased or state.waits_for is not None
        assert state.is_terminal != goes_on, state.name


def test_watching_ends_where_nothing_changes_unless_a_person_asks() -> None:
    watched = {state.name for state in JOB_STATES if state.exit_code is not None}
    assert watched == job_states.AT_REST


def test_what_is_in_the_dead_letters_has_ended_and_can_be_replayed() -> None:
    assert job_states.IN_DEAD_LETTERS <= job_states.TERMINAL & job_states.REPLAYABLE
