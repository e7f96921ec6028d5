"""The faults of the live runs as they stand in the evidence: the judge names what each breaks.

`tests/acceptance/test_injected_faults.py` lets one of them run live, and `make chaos` all.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.honest_run import T0, HonestRun, call, job_id, seen

from streams.demo.verdict.fold import StoreFinding
from streams.demo.verdict.judge import judge
from streams.demo.world.scenario import TENANTS

LIVE = Path(__file__).parents[2] / "acceptance/injected_faults/sitecustomize.py"


def faults_of_live_runs() -> Any:
    spec = importlib.util.spec_from_file_location("faults_of_live_runs", LIVE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.INJECTED_FAULTS


INJECTED_FAULTS = faults_of_live_runs()


def ledger_skipped(run: HonestRun) -> None:
    """A flaky ticket's second attempt calls again, under a key that the ledger does not know."""
    again = replace(run.calls[0], key="a1b2", began_at=T0 + 3)
    run.calls.append(again)


def dedup_forgets(run: HonestRun) -> None:
    """Each redelivery is an event once more, which the dispatcher still gives no second job."""
    run.events += run.events


def tenant_from_body(run: HonestRun) -> None:
    """An event and its job belong to the tenant that a body names."""
    own = run.ticket(tenant_id=TENANTS[0])
    at = run.scenario.tickets.index(own)
    run.received[at] = seen(
        "events.received", replace(run.received[at].value, tenant_id=TENANTS[1])
    )
    run.events[at] = seen("events", replace(run.events[at].value, tenant_id=TENANTS[1]))
    run.change_job(job_id(own), tenant_id=TENANTS[1])


def scheduler_early(run: HonestRun) -> None:
    """All timers fire half a second before they are due."""
    run.commands = [replace(s, at=s.at - 0.5) for s in run.commands]


def job_dropped(run: HonestRun) -> None:
    """One event of a partition has neither job nor calls."""
    lost = run.ticket(flaky=False, poison=False)
    actions = {call(lost, action).action for action in lost.actions}
    run.jobs = [s for s in run.jobs if s.value.job_id != job_id(lost)]
    run.listed = [each for each in run.listed if each.job_id != job_id(lost)]
    run.calls = [c for c in run.calls if c.caller.job_id != job_id(lost) or c.action not in actions]


def seen_before_delivery(run: HonestRun) -> None:
    """A message that failed once is marked as delivered, and is not sent again."""
    outgoing = run.outgoing
    failed = next(hook for hook in outgoing.hooks if hook.status == 503)
    outgoing.hooks = [h for h in outgoing.hooks if h.place != failed.place or h is failed]


def store_edited(run: HonestRun) -> None:
    """A value on disk differs from its changelog."""
    run.stores.append(StoreFinding("jobs", "pipeline-0/jobs/1", 9, ("b'first'",), True))


ON_RECORD: dict[str, tuple[str, Callable[[HonestRun], None]]] = {
    "ledger_skipped": ("G2", ledger_skipped),
    "dedup_forgets": ("G1", dedup_forgets),
    "tenant_from_body": ("G3", tenant_from_body),
    "scheduler_early": ("G4", scheduler_early),
    "job_dropped": ("G1", job_dropped),
    "seen_before_delivery": ("G7", seen_before_delivery),
    "store_edited": ("G6", store_edited),
}


def test_every_fault_of_the_live_runs_is_on_record() -> None:
    assert INJECTED_FAULTS.keys() == ON_RECORD.keys()


@pytest.mark.parametrize("name", ON_RECORD)
def test_its_guarantee_is_found_broken(name: str) -> None:
    guarantee, fault = ON_RECORD[name]
    run = HonestRun()
    assert judge(run.evidence()).ok
    fault(run)
    verdict = judge(run.evidence())
    assert verdict.findings[guarantee].violations
    assert not verdict.ok


@pytest.mark.parametrize("name", INJECTED_FAULTS)
def test_it_still_finds_in_the_product_what_it_changes(name: str) -> None:
    """Python would let a fault set a method that has another name by now, and change nothing."""
    _, where, change = INJECTED_FAULTS[name]
    module = importlib.import_module(where)
    owners: list[Any] = [
        module,
        *(found for found in vars(module).values() if isinstance(found, type)),
    ]
    before = [dict(vars(owner)) for owner in owners]
    try:
        change(module)
        changed = {
            (owner.__name__, attribute): attribute in known
            for owner, known in zip(owners, before, strict=True)
            for attribute, value in vars(owner).items()
            if value is not known.get(attribute)
        }
    finally:
        for owner, known in zip(owners, before, strict=True):
            restore(owner, known)
    assert changed
    assert all(changed.values()), changed


def restore(owner: Any, known: dict[str, Any]) -> None:
    for attribute in [each for each in vars(owner) if vars(owner)[each] is not known.get(each)]:
        if attribute in known:
            setattr(owner, attribute, known[attribute])
        else:
            delattr(owner, attribute)
