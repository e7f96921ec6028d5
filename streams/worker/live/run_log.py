"""`ctx.log`: the process's own logger, bound to the run, whose lines the job shows, too."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import structlog
from structlog.typing import EventDict, FilteringBoundLogger

from streams.serde.records import Lease
from streams.worker.live.line import Line

_OF_THE_LINE = ("event", "exc_info", "stack_info", "level", "timestamp")


def run_log(lease: Lease, publish: Callable[[Line], None]) -> FilteringBoundLogger:
    """A logger of one run; `publish` gets each line that the process's log level lets through."""
    bound = {"job_id": lease.job_id, "run_id": lease.run_id, "tenant_id": lease.tenant_id}

    def shown(_: object, method: str, event: EventDict) -> EventDict:
        publish(Line(method, str(event.get("event", "")), _fields(event, bound)))
        return event

    processors = [shown, *structlog.get_config()["processors"]]
    logger: FilteringBoundLogger = structlog.wrap_logger(None, processors).bind(**bound)
    return logger


def _fields(event: EventDict, bound: Mapping[str, str]) -> dict[str, Any]:
    """What a line says beside its message; an exception as its type and message."""
    said = {k: v for k, v in event.items() if k not in bound and k not in _OF_THE_LINE}
    error = _raised(event.get("exc_info"))
    return said if error is None else {**said, "error": error}


def _raised(exc_info: object) -> BaseException | None:
    match exc_info:
        case BaseException():
            return exc_info
        case (_, BaseException() as error, _):
            return error
        case True:
            return sys.exception()
        case _:
            return None
