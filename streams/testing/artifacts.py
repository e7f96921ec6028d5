"""What jobs of a bench have saved."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from streams.artifacts.reference import path_of_job
from streams.artifacts.sealing import head_of, opened
from streams.testing.beside_loop import beside_loop
from streams.testing.memory_store import MemoryStore
from streams.vault.keyring import DataKeyring


@dataclass(frozen=True, slots=True)
class Saved:
    """An artifact of a job: what `ctx.save` was given."""

    name: str
    content: bytes
    content_type: str


def saved(store: MemoryStore, keyring: DataKeyring, tenant_id: str, job_id: str) -> list[Saved]:
    """What a job has saved, and what lies there in the place of its large values."""
    found = store.entries(path_of_job(tenant_id, job_id))
    return [opened_now(store, keyring, tenant_id, each.path) for each in found]


@beside_loop
def opened_now(store: MemoryStore, keyring: DataKeyring, tenant_id: str, path: str) -> Saved:
    """What lies in one place."""
    data = store.get(path)
    reference = head_of(data)[0].reference
    content = asyncio.run(opened(keyring, tenant_id, reference, data))
    return Saved(reference.name, content, reference.content_type)
