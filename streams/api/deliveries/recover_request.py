"""Body of a recovery."""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from streams.api.deliveries.table import RecoveryRange
from streams.api.fields import Body, Moment
from streams.http.moments import milliseconds
from streams.serde.delivery_states import RECOVERABLE, DeliveryStatus


class RecoverRequest(Body):
    """Body of a recovery: deliveries created from `since` until before `until`.

    Without `until`, those that the delivery stage has when it begins are taken. Without `status`,
    those that are parked or dead are driven anew.
    """

    since: Moment
    until: Moment | None = None
    status: DeliveryStatus | None = None
    dry_run: bool = False

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.until is not None and milliseconds(self.until) <= milliseconds(self.since):
            raise ValueError("until must be after since")
        return self

    def selection(self, tenant_id: str, endpoint_id: str) -> RecoveryRange:
        """Return the deliveries that are asked for."""
        return RecoveryRange(
            tenant_id,
            endpoint_id,
            milliseconds(self.since),
            None if self.until is None else milliseconds(self.until),
            RECOVERABLE if self.status is None else (self.status,),
        )
