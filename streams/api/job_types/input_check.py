"""The refusal of inputs that do not fit what applications announce of their job types."""

from __future__ import annotations

import sqlite3

from streams.api.job_types import table as job_types
from streams.api.job_types.input_schema.check import misfits
from streams.api.operator_state import AppState
from streams.api.refusal import all_invalid
from streams.model_faults import Fault


async def refuse_misfit(state: AppState, type_: str, text: str) -> None:
    """Check the input of a new job, as JSON text, by what was announced last of its type.

    Raises:
        Refusal: 422 naming each field at fault.
    """
    faults = await misfits_of(state, type_, text)
    if faults:
        raise all_invalid(faults)


async def misfits_of(state: AppState, type_: str, text: str) -> list[Fault] | None:
    """Return each field at fault of an input, as JSON text; None if no schema was announced."""

    def look(connection: sqlite3.Connection) -> list[Fault] | None:
        found = job_types.job_type(connection, type_)
        schema = None if found is None else found.type.input_schema
        return None if schema is None else misfits(schema, text)

    return await state.query(look)
