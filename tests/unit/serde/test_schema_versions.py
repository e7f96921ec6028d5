"""Versions of a schema: each keeps its id, and a process reads every version that it has."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.schema_versions import LATER, another_version

from streams.errors import ConfigError, DecodeError
from streams.serde import release, schemas
from streams.serde.codec import PROGRESS, Codec
from streams.serde.records import Progress

RECORD = Progress("job_1", "acme", "run_1", 1, "{}")


@dataclass(frozen=True, slots=True)
class LaterProgress(Progress):
    """A record with a field that came later."""

    later: str | None


def test_a_record_of_an_earlier_version_is_read_with_the_defaults_of_what_it_lacks(
    tmp_path: Path,
) -> None:
    data = PROGRESS.encode(RECORD)
    with another_version("progress", tmp_path, LATER):
        later = Codec("progress", LaterProgress)
        assert later.decode(data).later is None
        written = LaterProgress("job_1", "acme", "run_1", 1, "{}", "new")
        assert later.decode(later.encode(written)) == written
        assert PROGRESS.decode(later.encode(written)) == RECORD, "as a process of before reads it"
    with pytest.raises(DecodeError, match="not known here"):
        PROGRESS.decode(b"\0\0\0\3\xe7" + data[5:])


def test_a_release_adds_an_id_and_changes_no_other(tmp_path: Path) -> None:
    before = schemas.by_id()
    with another_version("progress", tmp_path, LATER):
        after = schemas.by_id()
        newest = schemas.current("progress")
        assert {id_: after[id_].text for id_ in before} == {i: s.text for i, s in before.items()}
        assert (newest.id, newest.version) == (max(before) + 1, 2)
        assert set(after) - set(before) == {newest.id}
        assert release.release() == [], "every schema is released"


def test_a_schema_that_was_changed_and_not_released_is_refused(tmp_path: Path) -> None:
    with another_version("progress", tmp_path, LATER) as folder:
        (folder / "progress.avsc").write_text((folder / "held.avsc").read_text())
        with pytest.raises(ConfigError, match=r"progress.avsc differs from version 2.*release it"):
            schemas.current("progress")


def test_a_released_version_that_was_changed_is_refused(tmp_path: Path) -> None:
    with another_version("progress", tmp_path, LATER) as folder:
        path = folder / "history/progress.1.avsc"
        source = json.loads(path.read_text())
        path.write_text(json.dumps(source | {"fields": source["fields"][:-1]}))
        schemas.by_id.cache_clear()
        with pytest.raises(ConfigError, match=r"progress.1.avsc was changed after release"):
            schemas.by_id()
