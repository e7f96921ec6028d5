"""People who decide about the approvals of a bench, as the operator's API lets them."""

from __future__ import annotations

import asyncio
from typing import Any

from streams.approval_edits import edited
from streams.serde import records
from streams.serde.ids import new_id
from streams.serde.records import Approval, Decide
from streams.testing.pipeline_in_memory import PipelineInMemory
from streams.testing.refused import Refused, require_json
from streams.vault.keyring import DataKeyring
from streams.vault.sealed_json import open_with, seal_with


class People:
    """They see and seal what the operator does."""

    def __init__(self, pipeline: PipelineInMemory, keyring: DataKeyring) -> None:
        self._pipeline = pipeline
        self._keyring = keyring

    def decision(
        self, job: records.Job, key: str, approved: bool, by: str, note: str, edit: object
    ) -> Decide:
        """The command that approves or rejects.

        Raises:
            Refused: the job asks for no such approval, or the edit does not fit it.
        """
        found = self._approval(job, key)
        id_ = found.approval_id
        body = Decide(id_, new_id("dec"), approved, by, note)
        if edit is None:
            return body
        require_json(edit, "the edit")
        try:
            value, digests = edited(found.effects, self.asked(found)["arguments"], edit)
        except ValueError as error:
            raise Refused("not_supported", str(error)) from None
        sealed = seal_with(self._keyring, job.tenant_id, id_, value)
        return Decide(id_, body.decision_id, approved, by, note, sealed, digests)

    def _approval(self, job: records.Job, key: str) -> Approval:
        known = {approval.key: approval for approval in self._pipeline.approvals(job)}
        if key not in known:
            told = "it asks for " + (", ".join(map(repr, known)) or "none: let it run first")
            raise Refused("approval_unknown", f"job {job.job_id} has no approval {key!r}: {told}")
        return known[key]

    def asked(self, approval: Approval) -> Any:
        """The prompt and the arguments of an approval."""
        who = approval.tenant_id, approval.approval_id
        return asyncio.run(open_with(self._keyring, *who, approval.asked))
