"""The list of what a job saved has what can be read, and nothing else."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from support.operator_cluster import make_job
from support.operator_desk import OperatorDesk

from streams.api.artifacts.stored import saved_by
from streams.api.read_model.database import Database
from streams.artifacts.reference import Reference, path_of
from streams.artifacts.sealing import sealed
from streams.serde.codec import JOB
from streams.testing.memory_store import MemoryStore
from streams.vault.key_encryption import local_vault
from streams.vault.keyring import DataKeyring


async def test_what_a_killed_worker_has_half_written_is_not_listed(tmp_path: Path) -> None:
    store, keyring = MemoryStore(), DataKeyring(local_vault(bytes(32)))
    reference = Reference("art_1", "job_a", "bill.pdf", 1, "application/pdf")
    parts = list(sealed(keyring, "acme", reference, b"x"))
    store.put(path_of("acme", "job_a", "art_1"), parts)
    store.put(path_of("acme", "job_a", ".unfinished-x"), parts[:1])
    with closing(Database(tmp_path / "m.sqlite").open_writer()) as rows:
        desk: Any = OperatorDesk(rows)
        desk.artifacts = store
        desk.project([("jobs", b"", JOB.encode(make_job("job_a", "acme")))])
        assert [each["artifact"] for each in await saved_by(desk, "job_a")] == ["art_1"]
