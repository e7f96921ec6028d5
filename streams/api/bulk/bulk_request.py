"""Bodies of the calls on bulk acts."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from streams.api.bulk.action import Action
from streams.api.bulk.actions import ACTIONS
from streams.api.fields import Body, Writable, noted, validated
from streams.api.refusal import Refusal, all_invalid, invalid

RAMP = [1, 10, 100]
_SHARE = 0.1

Step = Annotated[int, Field(ge=1, le=100_000)]
Failures = Annotated[int, Field(ge=1, le=1_000_000)] | Annotated[float, Field(gt=0, lt=1)]


class BulkRequest(Body):
    """Body of `POST /v1/bulk`: one action on all things that a filter selects now.

    `params` is what the action needs besides. `ramp` has the sizes of the first steps; the last one
    takes the rest. `stop_at_failures` is a number of items, or below 1 a share of those dealt with;
    null never stops.
    """

    action: str
    filter: dict[str, Writable] = Field(default_factory=dict)
    params: dict[str, Writable] = Field(default_factory=dict)
    note: Annotated[str, noted("must say why this is done")] | None = None
    ramp: Annotated[list[Step], Field(max_length=10)] = Field(default_factory=lambda: [*RAMP])
    stop_at_failures: Failures | None = _SHARE
    dry_run: bool = False

    @model_validator(mode="after")
    def _noted(self) -> Self:
        if self.note is None and not self.dry_run:
            raise ValueError("note must say why this is done")
        return self

    def known_action(self) -> Action:
        """Return the action; refuse with 422 if there is none of that name."""
        found = ACTIONS.get(self.action)
        if found is None:
            known = ", ".join(ACTIONS)
            raise invalid("action", f"{self.action!r} is none of {known}")
        return found

    def chosen(self, action: Action) -> Body:
        """Return the filter; refuse with 422 what the action cannot filter by."""
        return _part("filter", self.filter, action.filter)

    def parameters(self, action: Action) -> Body:
        """Return the action's parameters; refuse with 422 if they are not those that it needs."""
        return _part("params", self.params, action.params)

    def require_valid(self) -> None:
        """Refuse with 422 an action that is none, or what it cannot have."""
        action = self.known_action()
        self.chosen(action)
        self.parameters(action)


class CancelBulkRequest(Body):
    """Body of `POST /v1/bulk/{id}/cancel`."""

    note: Annotated[str, noted("must say why it is cancelled")] = "cancelled by the operator"


def _part(name: str, value: dict[str, Any], model: type[Body]) -> Body:
    """Return a part of a body as a model, with errors that name the fields within the whole."""
    try:
        return validated(value, model)
    except Refusal as refusal:
        errors = refusal.extra.get("errors", [])
        raise all_invalid(
            [
                (name if each["field"] == "body" else f"{name}.{each['field']}", each["message"])
                for each in errors
            ]
        ) from None
