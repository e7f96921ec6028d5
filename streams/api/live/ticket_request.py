"""Body of the call that gives a ticket for a stream."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from streams.api.fields import Body
from streams.api.live.subject import MOST_JOBS, of_jobs
from streams.api.live.tickets import digest_of_workflow
from streams.api.refusal import invalid


class TicketRequest(Body):
    """Body of `POST /v1/stream-tickets`: jobs, or a workflow, perhaps with its tenant."""

    jobs: Annotated[list[str], Field(max_length=MOST_JOBS, default_factory=list)]
    workflow_id: str | None = None
    tenant_id: str | None = None

    def digest(self) -> bytes:
        """Return what the ticket is about.

        Raises:
            Refusal: 422, it is about neither jobs nor a workflow, or about both.
        """
        if bool(self.jobs) == (self.workflow_id is not None):
            raise invalid("jobs", "name either jobs or a workflow_id")
        if self.jobs and self.tenant_id is not None:
            raise invalid("tenant_id", "only a workflow is named with its tenant")
        if self.workflow_id is not None:
            return digest_of_workflow(self.workflow_id, self.tenant_id)
        return of_jobs(self.jobs).digest
