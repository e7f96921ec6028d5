"""Pauses tenants, types, pools, sources and tools, and drains workers, as people say.

The store `parts` keeps what is paused under `Z` scope and value.
"""

from __future__ import annotations

from typing import ClassVar, cast

import structlog

from streams.closed_tenants import address_of
from streams.dispatcher.part import Part
from streams.dispatcher.step import Step
from streams.limits.paused import Scope
from streams.runtime.part import reads
from streams.runtime.processor import Context, Record
from streams.serde.keys import SEPARATOR, after, join
from streams.tenants.pauses import KIND, paused_by

log = structlog.get_logger(__name__)

_PAUSED = b"Z"


class Pausing(Part):
    """What is paused in one partition."""

    keys: ClassVar = {_PAUSED: "what people have paused"}

    def restored(self, ctx: Context) -> None:
        for key, _ in ctx.store("parts").range(_PAUSED, after(_PAUSED)):
            scope, _, value = key[len(_PAUSED) :].partition(SEPARATOR)
            self._set(cast(Scope, scope.decode()), value.decode(), True)

    @reads("tenants")
    def follow(self, step: Step, record: Record) -> None:
        """Pause or resume what a record of `tenants` names; a tombstone resumes it."""
        address = address_of(record.key)
        if address is None or address[1] != KIND:
            return
        named = paused_by(address[0], address[2])
        if named is None:
            log.warning("a record of tenants pauses nothing that is known", id=address[2])
            return
        is_paused, key = record.value is not None, _PAUSED + join(*named)
        if is_paused == (step.store.get(key) is not None):
            return
        step.store.put(key, b"") if is_paused else step.store.delete(key)
        step.on_undo(self._set, *named, not is_paused)
        self._set(*named, is_paused)
        log.info("paused" if is_paused else "resumed", scope=named[0], value=named[1])

    def _set(self, scope: Scope, value: str, is_paused: bool) -> None:
        if scope == "worker":
            workers = self.shared.workers
            workers.roster.drain(workers.partition, value, is_paused)
        else:
            self.shared.queue.pause(scope, value, is_paused)
