"""Faults injected from outside into the demo's processes; Python imports this file by its name.

`DEMO_FAULT` names one. The product has no hook for it: a module is changed right after loading,
in the processes of one stage alone.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.abc import MetaPathFinder
from types import ModuleType
from typing import Any


def ledger_skipped(module: ModuleType) -> None:
    """A worker calls tools without asking the ledger, under a key of its own."""

    async def run(
        self: Any, tool: str, function: Any, key: str, arguments: Any, once_per: str, model: Any
    ) -> Any:
        made = partial(function, idempotency_key=os.urandom(8).hex(), **arguments)
        return await module.call(made)

    module.Effects.run = run


def dedup_forgets(module: ModuleType) -> None:
    """Dedup forwards whatever comes."""
    module.Dedup.process_batch = lambda self, records, ctx: ctx.relay("events", records)


def tenant_from_body(module: ModuleType) -> None:
    """Ingress believes the tenant that a body names."""
    event = module.Receiver._event

    def believing(self: Any, sender: Any, headers: Any, body: bytes) -> Any:
        try:
            named = json.loads(body).get("tenant_id", sender.source.tenant_id)
        except ValueError:
            named = sender.source.tenant_id
        source = replace(sender.source, tenant_id=named)
        return event(self, replace(sender, source=source), headers, body)

    module.Receiver._event = believing


def scheduler_early(module: ModuleType) -> None:
    """The scheduler's clock is half a second ahead."""
    fire, first = module.Scheduler._fire, module.Scheduler.initiate

    def early(self: Any, ctx: Any, limit: int | None) -> None:
        first(self, ctx, limit)
        if ctx.now + 500 >= self._next_due:
            fire(self, ctx.now + 500, limit or 1_000, ctx)

    module.Scheduler.initiate = early


def job_dropped(module: ModuleType) -> None:
    """Each dispatcher passes over one event of every partition."""
    arrived = module.Events.arrived
    begun: set[int] = set()

    def passing_over(self: Any, step: Any, record: Any) -> None:
        if record.partition in begun:
            arrived(self, step, record)
        begun.add(record.partition)

    module.Events.arrived = passing_over


def seen_before_delivery(module: ModuleType) -> None:
    """The delivery stage marks a message as delivered before it sends it."""
    choose = module.Sending._choose

    def marking(self: Any, step: Any, chosen: Any) -> None:
        choose(self, step, chosen)
        for attempt in chosen:
            row = attempt.row
            step.rows.put(replace(row, status="delivered", next_attempt_at=None), row)

    module.Sending._choose = marking


def store_edited(module: ModuleType) -> None:
    """A value on disk is changed after the stages stopped."""
    examine = module.examine

    def edited(settings: Any, topology: Any) -> Any:
        paths = (settings.data_dir / "state").glob("*/*/jobs/*")
        families = next(f for f in map(_open, sorted(paths)) if f is not None)
        row = next(filter(lambda key: not key.startswith(b"\0"), families.keys()))
        families[row] = b"edited"
        families.close()
        return examine(settings, topology)

    def _open(path: Any) -> Any:
        options = module.Options(raw_mode=True)
        names = module.Rdict.list_cf(str(path), options)
        store = module.Rdict(str(path), options, column_families=dict.fromkeys(names, options))
        if "0" not in names or not list(store.get_column_family("0").keys()):
            store.close()
            return None
        return store.get_column_family("0")

    module.examine = edited  # type: ignore[attr-defined]


INJECTED_FAULTS: dict[str, tuple[str, str, Callable[[ModuleType], None]]] = {
    "ledger_skipped": ("worker", "streams.worker.handler.effects", ledger_skipped),
    "dedup_forgets": ("dedup", "streams.dedup.processor", dedup_forgets),
    "tenant_from_body": ("ingress", "ingress.receive.receiver", tenant_from_body),
    "scheduler_early": ("scheduler", "streams.scheduler", scheduler_early),
    "job_dropped": ("dispatcher", "streams.dispatcher.parts.events", job_dropped),
    "seen_before_delivery": ("delivery", "streams.delivery.parts.sending", seen_before_delivery),
    "store_edited": ("demo", "streams.demo.verdict.fold", store_edited),
}


class _Injector(MetaPathFinder):
    """Loads one module as ever, then changes it."""

    def __init__(self, module: str, change: Callable[[ModuleType], None]) -> None:
        self._module, self._change = module, change

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != self._module:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_change(module: ModuleType) -> None:
                load(module)
                self._change(module)

            spec.loader.exec_module = load_and_change  # type: ignore[method-assign]
        return spec


_fault = INJECTED_FAULTS.get(os.environ.get("DEMO_FAULT", ""))
_fused = _fault is not None and _fault[0] in {"dedup", "scheduler", "dispatcher"}
if _fault is not None and {_fault[0], "pipeline" if _fused else _fault[0]} & {*sys.orig_argv}:
    sys.meta_path.insert(0, _Injector(_fault[1], _fault[2]))
