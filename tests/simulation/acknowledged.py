"""An acknowledgement means that what a command said is committed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulation.outside import Violation
from streams import ledger_entries
from streams.serde.codec import JOB
from streams.serde.effect_scopes import effect_scope
from streams.serde.effect_states import CLAIMED
from streams.serde.job_states import LEASED
from streams.serde.keys import checkpoint_key
from streams.serde.records import Checkpoint, CommandBody, Ended, Job, Lease, Outcome
from streams.state.overlay import Overlay

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simulation.world import World


def acknowledged(world: World, lease: Lease, body: CommandBody) -> None:
    """A worker reads that its command is committed.

    Raises:
        Violation: nothing of it is, though its run goes on.
    """
    stores = world.cluster.task("dispatcher", lease.home_partition).stores
    value = stores["jobs"].get(lease.job_id.encode())
    job = None if value is None else JOB.decode(value)
    if job is None or job.status not in LEASED or job.run_id != lease.run_id:
        return
    if isinstance(body, Ended) or _is_missing(stores, job, body):
        raise Violation("acked_lost", f"{lease.job_id} {lease.epoch}: {body}")


def _is_missing(stores: Mapping[str, Overlay], job: Job, body: CommandBody) -> bool:
    if isinstance(body, Checkpoint):
        key = checkpoint_key(job.job_id, job.incarnation, body.step.id)
        return stores["checkpoints"].get(key) is None
    if isinstance(body, Outcome):
        scope = effect_scope(job.scope, body.once_per)
        entry = ledger_entries.get(stores["ledger"], job.tenant_id, scope, body.action)
        return entry is not None and (entry.claim_id, entry.status) == (body.claim_id, CLAIMED)
    return False
