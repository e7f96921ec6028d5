"""The tables of states have every state, and the sets follow from the rows."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

from streams.serde import codec, delivery_states, effect_states, job_states, records, run_ends
from streams.serde.job_states import JOB_STATES

ROOT = Path(__file__).resolve().parents[3]


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


def documented(hint: Any, schema: Any) -> Iterator[tuple[str, tuple[str, ...], str]]:
    """Each field of a record and of those within it that takes some words, with its `doc`."""
    if dataclasses.is_dataclass(hint) and not isinstance(schema, str):  # named again: looked at
        inner = schema["fields"] if isinstance(schema, dict) else []
        by_name = {field["name"]: field for field in inner}
        for name, of_field in get_type_hints(hint).items():
            field = by_name[name]
            for each in (of_field, *get_args(of_field)):
                if get_origin(each) is Literal:
                    yield name, get_args(each), field.get("doc", "")
            yield from documented(of_field, field["type"])
        return
    records = [each for each in get_args(hint) if dataclasses.is_dataclass(each)]
    inside = schema.get("items") if isinstance(schema, dict) else None
    named = schema if isinstance(schema, list) else [inside or schema]
    for record in records:
        for each in named:
            if isinstance(each, dict) and each.get("name") == getattr(record, "__name__", None):
                yield from documented(record, each)


@pytest.mark.parametrize(
    "of", [c for c in vars(codec).values() if isinstance(c, codec.Codec)], ids=lambda c: c.name
)
def test_the_schema_names_every_word_that_a_field_takes(of: codec.Codec[Any]) -> None:
    for name, words, doc in documented(of.cls, json.loads(of.schema.text)):
        assert set(words) <= set(re.findall(r"\w+", doc)), f"{of.name}: {name}"


def test_the_messages_about_jobs_are_named() -> None:
    said = (ROOT / "docs/deliveries.md").read_text()
    assert set(re.findall(r"`job\.(\w+)`", said)) == job_states.SENT


def test_a_state_ends_a_job_or_says_how_the_job_goes_on() -> None:
    for state in JOB_STATES:
        goes_on = state.is_leased or state.waits_for is not None
        assert state.is_terminal != goes_on, state.name


def test_watching_ends_where_nothing_changes_unless_a_person_asks() -> None:
    watched = {state.name for state in JOB_STATES if state.exit_code is not None}
    assert watched == job_states.AT_REST


def test_what_is_in_the_dead_letters_has_ended_and_can_be_replayed() -> None:
    assert job_states.IN_DEAD_LETTERS <= job_states.TERMINAL & job_states.REPLAYABLE


def test_a_job_loses_on_entering_a_state_what_only_others_have() -> None:
    fields = {field.name: field for field in dataclasses.fields(records.Job)}
    for state in JOB_STATES:
        assert set(state.only_here) <= fields.keys()
        ended = job_states.ENDED_ON_ENTRY[state.name]
        others = [other for other in JOB_STATES if other is not state]
        assert ended == {name: None for other in others for name in other.only_here}
        assert not ended.keys() & set(state.only_here)
