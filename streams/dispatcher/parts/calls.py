"""Calls of tools and models: jobs whose calls found no room under a limit wait for it."""

from __future__ import annotations

import orjson

from streams.dispatcher.call_places import await_room
from streams.dispatcher.part import Part
from streams.dispatcher.step import Step
from streams.runtime.part import handles
from streams.serde import run_ends
from streams.serde.records import Ended, Job


class Calls(Part):
    """Has jobs wait for places for their calls."""

    @handles(run_ends.FULL)
    def full(self, step: Step, job: Job, body: Ended) -> None:
        """Have a job start again once there is room for the call that its run asked for."""
        await_room(step, job, *_asked(body))


def _asked(body: Ended) -> tuple[str | None, str | None]:
    """The tool and the model of the call; neither if the run's end does not name them."""
    try:
        tool, model = orjson.loads(body.result or "null")
    except (ValueError, TypeError):
        return None, None
    return _name(tool), _name(model)


def _name(value: object) -> str | None:
    return value if isinstance(value, str) else None
