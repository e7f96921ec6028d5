"""The names of spans, attributes and links.

Those without `tidegate` are OpenTelemetry's semantic conventions for messaging, HTTP and errors; a
test compares them. No attribute holds a body, a header, a URL's path or query, an error's message,
or the arguments, key or result of an effect: any of these may be a secret or a person's data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Attributes = Mapping[str, str | int | bool]
System = Literal["kafka", "tidegate"]
"""What carries messages: the link between owners of jobs and workers is a system of our own."""

SYSTEM = "messaging.system"
OPERATION_NAME = "messaging.operation.name"
OPERATION_TYPE = "messaging.operation.type"
DESTINATION = "messaging.destination.name"
PARTITION = "messaging.destination.partition.id"
OFFSET = "messaging.kafka.offset"
GROUP = "messaging.consumer.group.name"
BATCH_COUNT = "messaging.batch.message_count"

METHOD = "http.request.method"
ROUTE = "http.route"
STATUS_CODE = "http.response.status_code"
SERVER_ADDRESS = "server.address"
SERVER_PORT = "server.port"
ERROR_TYPE = "error.type"

TENANT = "tidegate.tenant.id"
SOURCE = "tidegate.source"
EVENT = "tidegate.event.id"
OUTCOME = "tidegate.outcome"
"""How it ended: of a webhook, a run, an effect or an attempt to deliver."""
DUPLICATE = "tidegate.duplicate"
JOB = "tidegate.job.id"
JOB_TYPE = "tidegate.job.type"
ATTEMPT = "tidegate.attempt"
EPOCH = "tidegate.job.epoch"
WAITED_MS = "tidegate.job.waited_ms"
"""How long the job was ready before it was leased, in milliseconds."""
LAST_RUN = "tidegate.job.last_run"
"""How the run before a lease ended: `failed`, `timeout`, `lost` or `released`."""
RUN = "tidegate.run.id"
WORKER = "tidegate.worker.id"
STEP = "tidegate.step"
TOOL = "tidegate.tool"
ANSWER = "tidegate.ledger.answer"
DELIVERY = "tidegate.delivery.id"
ENDPOINT = "tidegate.endpoint.id"
LINK = "tidegate.link"
"""Why a span is linked: see `REPLAY_OF`, `ATTEMPT_BEFORE`, `BATCH`."""

REPLAY_OF = "replay_of"
"""The link leads to the last lease of the job that is replayed."""
ATTEMPT_BEFORE = "attempt_before"
"""The link leads to the lease, or attempt to deliver, before this one."""
BATCH = "batch"
"""The link leads to the batch in which a record was processed."""


def send(topic: str) -> str:
    """The name of a span that sends records."""
    return f"send {topic}"


def poll(topic: str) -> str:
    """The name of the span of a batch."""
    return f"poll {topic}"


def process(topic: str) -> str:
    """The name of the span in which one record is processed."""
    return f"process {topic}"


def sending(topic: str, system: System = "kafka", **more: str | int) -> dict[str, str | int | bool]:
    """The attributes of `send`; `partition` is one."""
    return _messaging(system, topic, "send", "send", more)


def polling(topic: str, group: str, count: int) -> dict[str, str | int | bool]:
    """The attributes of `poll`; `count` is the number of records in the batch, traced or not."""
    found = _messaging("kafka", topic, "poll", "receive", {})
    return {**found, GROUP: group, BATCH_COUNT: count}


def processing(
    topic: str, group: str = "", system: System = "kafka", **more: str | int
) -> dict[str, str | int | bool]:
    """The attributes of `process`; `partition` and `offset` are some. The link has no group."""
    found = _messaging(system, topic, "process", "process", more)
    return found | {GROUP: group} if group else found


def _messaging(
    system: System, topic: str, name: str, type_: str, more: Mapping[str, str | int]
) -> dict[str, str | int | bool]:
    found: dict[str, str | int | bool] = {
        SYSTEM: system,
        OPERATION_NAME: name,
        OPERATION_TYPE: type_,
        DESTINATION: topic,
    }
    if "partition" in more:
        found[PARTITION] = str(more["partition"])  # a string by the conventions
    if "offset" in more:
        found[OFFSET] = more["offset"]
    return found
