"""Body of the calls by which a person records the outcome of an effect."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import model_validator

from streams.api.fields import Body, Writable, noted, stored_json
from streams.serde.effect_scopes import once_per
from streams.serde.effect_states import DONE, FAILED
from streams.serde.records import LedgerEntry, Settle

MAX_RESULT_BYTES = 256 * 1024
"""The same limit applies to a result that a run records."""


class SettleRequest(Body):
    """Body of a settlement; the handler gets `result`, any JSON, as the result of its effect."""

    status: Literal["done", "not_done"]
    result: Writable = None
    note: Annotated[str, noted("must say how the outcome was found out")]

    @model_validator(mode="after")
    def _result_of_what_is_done(self) -> Self:
        if self.status == "not_done" and self.result is not None:
            raise ValueError("an effect that was not done has no result")
        return self

    def command(self, entry: LedgerEntry, by: str) -> Settle:
        """Return the command that settles an effect.

        Raises:
            Refusal: 413, the result is too large.
        """
        result = stored_json(self.result, "result", MAX_RESULT_BYTES)
        is_done = self.status == DONE
        return Settle(
            entry.action,
            DONE if is_done else FAILED,
            result if is_done else None,
            self.note,
            by,
            once_per(entry.scope),
        )
