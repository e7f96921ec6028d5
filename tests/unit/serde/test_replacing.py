"""A copied record equals what `dataclasses.replace` makes of it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.operator_cluster import make_job as made_job

from streams.serde.records import Job
from streams.serde.replacing import replace


@given(st.sampled_from([field.name for field in dataclasses.fields(Job)]), st.integers())
def test_a_copy_differs_in_the_named_field_alone(name: str, value: int) -> None:
    job, changes = made_job(), cast("dict[str, Any]", {name: value})
    assert replace(job, **changes) == dataclasses.replace(job, **changes)
    assert replace(job) == job
    assert replace(job) is not job


def test_a_field_that_is_not_there_is_named() -> None:
    with pytest.raises(TypeError, match="Job has no field 'pol'"):
        replace(made_job(), pol="slow")  # type: ignore[call-arg]


def test_a_class_that_does_more_than_keep_its_fields_is_refused() -> None:
    @dataclass(frozen=True, slots=True)
    class Checked:
        low: int
        high: int

        def __post_init__(self) -> None:
            assert self.low <= self.high

    with pytest.raises(TypeError, match=r"Checked: copy it with dataclasses\.replace"):
        replace(Checked(1, 2), low=3)
