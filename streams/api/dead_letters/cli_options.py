"""The options by which `tidegate dlq ...` selects dead letters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from streams.cli.options import Tenant, Type

Kind = Annotated[str | None, typer.Option(help="Only of this kind: job or record.", metavar="KIND")]
Stage = Annotated[str | None, typer.Option(help="Only of this stage.", metavar="STAGE")]
Reason = Annotated[str | None, typer.Option(help="Only for this reason.", metavar="REASON")]
Error = Annotated[
    str | None, typer.Option(help="Only if its error contains this text.", metavar="TEXT")
]
Cause = Annotated[
    str | None, typer.Option(help="Only of this cause, as `causes list` names it.", metavar="CAUSE")
]
NotReplayed = Annotated[
    bool, typer.Option("--not-replayed", help="Only those that were not replayed yet.")
]
Discarded = Annotated[bool, typer.Option("--discarded", help="Only those that were discarded.")]
Manual = Annotated[bool, typer.Option("--manual", help="Only manual work that is not done.")]
Topic = Annotated[str | None, typer.Option(help="Only records of this topic.", metavar="TOPIC")]


@dataclass(frozen=True)
class Selected:
    """The options that select dead letters."""

    tenant: Tenant = None
    kind: Kind = None
    stage: Stage = None
    reason: Reason = None
    topic: Topic = None
    error: Error = None
    cause: Cause = None


@dataclass(frozen=True)
class Listed(Selected):
    """The options that select dead letters to look at."""

    type_: Type = None
    not_replayed: NotReplayed = False
    discarded: Discarded = False
    manual: Manual = False
    assignee: Annotated[
        str | None, typer.Option(help="Only manual work of this person.", metavar="NAME")
    ] = None

    def query(self) -> dict[str, str | None]:
        """The filters as the API names them."""
        return {
            "tenant_id": self.tenant,
            "kind": self.kind,
            "type": self.type_,
            "stage": self.stage,
            "reason": self.reason,
            "topic": self.topic,
            "error": self.error,
            "cause": self.cause,
            "not_replayed": "true" if self.not_replayed else None,
            "discarded": "true" if self.discarded else None,
            "manual": "true" if self.manual or self.assignee else None,
            "assignee": self.assignee,
        }
