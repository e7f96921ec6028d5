"""Of what a job saved, the API has what can be read, and nothing else in its place."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.operator_cluster import make_job
from support.operator_desk import OperatorDesk
from support.sealed_artifact import sealed

from streams.api.artifacts.stored import content, saved_by
from streams.api.read_model.database import Database
from streams.api.refusal import Refusal
from streams.artifacts.reference import Reference, path_of
from streams.serde.codec import JOB
from streams.testing.memory_store import MemoryStore
from streams.vault.key_encryption import local_vault
from streams.vault.keyring import DataKeyring


def desk_of(rows: Any, store: MemoryStore) -> Any:
    desk: Any = OperatorDesk(rows)
    desk.artifacts, desk.keyring = store, DataKeyring(local_vault(bytes(32)))
    desk.project([("jobs", b"", JOB.encode(make_job("job_a", "acme")))])
    return desk


def saved(desk: Any, artifact: str, content: bytes) -> list[bytes]:
    reference = Reference(artifact, "job_a", "bill.pdf", len(content), "application/pdf")
    parts = list(sealed(desk.keyring, "acme", reference, content))
    desk.artifacts.put(path_of("acme", "job_a", artifact), parts)
    return parts


async def test_what_a_killed_worker_has_half_written_is_not_listed(tmp_path: Path) -> None:
    store = MemoryStore()
    with closing(Database(tmp_path / "m.sqlite").open_writer()) as rows:
        desk = desk_of(rows, store)
        parts = saved(desk, "art_1", b"x")
        store.put(path_of("acme", "job_a", ".unfinished-x"), parts[:1])
        assert [each["artifact"] for each in await saved_by(desk, "job_a")] == ["art_1"]


async def test_bytes_that_were_put_into_the_place_of_others_are_not_given_for_them(
    tmp_path: Path,
) -> None:
    """Whoever may write to the store, but has no key, cannot exchange two files."""
    store = MemoryStore()
    with closing(Database(tmp_path / "m.sqlite").open_writer()) as rows:
        desk = desk_of(rows, store)
        saved(desk, "art_1", b"the bill")
        others = saved(desk, "art_2", b"of somebody else")
        assert await content(desk, "job_a", "art_1") == b"the bill"
        store.put(path_of("acme", "job_a", "art_1"), others)
        with pytest.raises(Refusal, match="damaged"):
            await content(desk, "job_a", "art_1")
        head = others[0].replace(b"art_2", b"art_1").replace(b'"size":16', b'"size":0')
        store.put(path_of("acme", "job_a", "art_1"), [head])
        with pytest.raises(Refusal):
            await content(desk, "job_a", "art_1")
        saved(desk, "art_3", b"")
        assert await content(desk, "job_a", "art_3") == b""
