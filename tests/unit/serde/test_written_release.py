"""Records written for the processes of an earlier release, during an upgrade."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import pytest
from fastavro import schemaless_reader
from fastavro.utils import generate_one

from streams.errors import ConfigError, NotInRelease
from streams.serde import codec, duplicate, schemas
from streams.serde.records import Command, Duplicate, ReplayEvent

OLD = "0.1.0a1"


@pytest.fixture(autouse=True)
def _as_the_old_release() -> Iterator[None]:
    duplicate._head.cache_clear()
    schemas.write_as(OLD)
    yield
    schemas.write_as(None)
    duplicate._head.cache_clear()


def _known_then(data: bytes) -> Any:
    """What a process of the old release reads."""
    id_ = int.from_bytes(data[1:5], "big")
    assert id_ <= schemas.releases()[OLD]
    schema = schemas.released(id_)
    return schemaless_reader(io.BytesIO(data[5:]), schema.parsed, None)


def test_the_newest_release_has_all_schemas_and_is_this_one() -> None:
    newest = list(schemas.releases())[-1]
    assert schemas.releases()[newest] == max(schemas.by_id())
    assert newest == re.sub(r"\+.*", "", version("tidegate"))


@pytest.mark.parametrize(
    "c",
    [
        found
        for found in vars(codec).values()
        if isinstance(found, codec.Codec) and not found._named
    ],
    ids=lambda c: c.name,
)
def test_every_record_of_the_old_release_is_written_as_it_reads_it(c: codec.Codec[Any]) -> None:
    if c is codec.REPLAY:
        pytest.skip("the old release has none")
    value = c._build(generate_one(c.schema.parsed))
    assert isinstance(_known_then(c.encode(value)), dict)


def test_a_field_that_came_later_is_left_out() -> None:
    job = codec.JOB._build(generate_one(codec.JOB.schema.parsed) | {"replay_id": "rpl_1"})
    assert "replay_id" not in _known_then(codec.JOB.encode(job))
    assert codec.JOB.decode(codec.JOB.encode(job)).replay_id is None
    schemas.write_as(None)
    assert codec.JOB.decode(codec.JOB.encode(job)).replay_id == "rpl_1"


def test_what_the_old_release_does_not_have_is_refused_and_says_what_to_do() -> None:
    asked = ReplayEvent("rpl_1", b"event", "answer", "webhook", "an incident")
    command = Command("cmd_1", "acme", "job_1", 0, 5, asked)
    with pytest.raises(NotInRelease, match="finish the upgrade"):
        codec.COMMAND.encode(command)
    with pytest.raises(NotInRelease, match="replay"):
        schemas.written(codec.REPLAY.name)


def test_the_count_of_duplicates_encoded_by_hand_is_that_of_the_old_release_too() -> None:
    by_hand = duplicate.encode_duplicate(b"acme", 3, 5, 9, b"evt_1", b"shop", b"order")
    assert by_hand == codec.DUPLICATE.encode(Duplicate("acme", 3, 5, 9, "evt_1", "shop", "order"))
    assert "source" not in _known_then(by_hand)


def test_a_release_that_is_not_known_is_named_with_those_that_are() -> None:
    with pytest.raises(ConfigError, match=r"'9.9'.*0\.1\.0a1, 0\.1\.0"):
        schemas.write_as("9.9")
