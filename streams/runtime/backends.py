"""Which backend a declared store gets, and how changelog records are folded into it."""

from __future__ import annotations

from streams.runtime.stage import StoreSpec
from streams.state.indexed import IndexedBackend
from streams.state.key_value import KeyValueBackend
from streams.state.store import Backend, Changes, Checkpoint, Tables
from streams.state.window import WindowBackend


def backend_for(spec: StoreSpec, tables: Tables) -> Backend:
    """The backend of a store over its tables."""
    if spec.kind == "window":
        return WindowBackend(tables, spec.window_ms)
    if spec.index is not None:
        return IndexedBackend(tables, spec.index.derive)
    return KeyValueBackend(tables)


def fold(backend: Backend, changes: Changes, newest: int, next_offset: int, now_ms: int) -> None:
    """Write what changelog records changed, and note that all before `next_offset` is folded in.

    `newest` is the highest timestamp of those records, 0 if there are none. An existing checkpoint
    keeps its date: a restore in several sittings is as old as its first one, because it may still
    miss tombstones from then on. Rows with an index are stamped when they are sent, and tell no
    stream time.
    """
    if isinstance(backend, IndexedBackend):
        changes, newest = backend.with_index(changes), 0
    checkpoint = backend.checkpoint()
    stream_time = max(newest, checkpoint.stream_time if checkpoint else 0)
    written_at = checkpoint.written_at_ms if checkpoint else now_ms
    backend.write(changes, Checkpoint(next_offset, written_at, stream_time))
