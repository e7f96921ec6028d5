"""The topics as an AsyncAPI 3.0 document, which tools turn into pages, clients and mocks.

Source: the AsyncAPI Specification 3.0.0 and version 0.5.0 of its Kafka bindings.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

from streams.serde.schemas import current
from streams.serde.subjects import schema_name
from streams.topology.model import Topic, Topology

Document = dict[str, Any]

_BINDING = {"bindingVersion": "0.5.0"}
_AVRO = "application/vnd.apache.avro;version=1.9.0"
_TEXT = {"type": "string"}
_HEADERS = {
    "ce_specversion": {"const": "1.0"},
    "ce_id": _TEXT | {"description": "event_id of the envelope"},
    "ce_source": _TEXT | {"description": "/tenants/{tenant_id}/sources/{source}"},
    "ce_type": _TEXT | {"description": "event_type of the envelope"},
    "traceparent": _TEXT | {"description": "W3C Trace Context"},
}
"""Of records with an envelope: CloudEvents 1.0.2 in the Kafka binding's binary mode."""


def asyncapi(topology: Topology, prefix: str, bootstrap: str, *, tls: bool) -> Document:
    """The document; topics without a schema of ours, such as changelogs, are left out."""
    channels = {name: topic for name, topic in topology.topics.items() if schema_name(name)}
    schemas = sorted({str(schema_name(name)) for name in channels})
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Tidegate",
            "version": version("tidegate"),
            "description": "Webhooks as events, and the jobs that come of them. `events` is for "
            "every reader; read it with isolation.level=read_committed.",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/vnd.apache.avro",
        "servers": {
            f"kafka{number}": {
                "host": host.strip(),
                "protocol": "kafka-secure" if tls else "kafka",
            }
            for number, host in enumerate(bootstrap.split(","))
        },
        "channels": {name: _channel(topic, prefix) for name, topic in channels.items()},
        "operations": dict(_operations(topology, channels, prefix)),
        "components": {"messages": {name: _message(name) for name in schemas}},
    }


def _channel(topic: Topic, prefix: str) -> Document:
    name = str(schema_name(topic.name))
    configuration: Document = {"cleanup.policy": topic.cleanup.split(",")}
    if topic.retention_ms is not None:
        configuration["retention.ms"] = topic.retention_ms
    of_kafka = {
        "topic": prefix + topic.name,
        "partitions": topic.partitions,
        "topicConfiguration": configuration,
    }
    return {
        "address": prefix + topic.name,
        "messages": {name: {"$ref": f"#/components/messages/{name}"}},
        "bindings": {"kafka": of_kafka | _BINDING},
    }


def _operations(
    topology: Topology, channels: dict[str, Topic], prefix: str
) -> Iterator[tuple[str, Document]]:
    for stage in topology.stages.values():
        changelogs = {store.changelog for store in stage.stores}
        topics = {"receive": stage.reads, "send": changelogs.union(topology.outputs(stage))}
        for name in channels:
            for action in (action for action, own in topics.items() if name in own):
                yield f"{stage.name}.{action}.{name}", _operation(action, name, prefix + stage.name)


def _operation(action: str, topic: str, group: str) -> Document:
    return {
        "action": action,
        "channel": {"$ref": f"#/channels/{topic}"},
        "bindings": {
            "kafka": {"groupId": {"type": "string", "enum": [group]}, **_BINDING}
            if action == "receive"
            else _BINDING
        },
    }


def _message(name: str) -> Document:
    schema = json.loads(current(name).text)
    frame = {"schemaIdLocation": "payload", "schemaIdPayloadEncoding": "confluent"}
    message = {
        "name": name,
        "summary": schema.get("doc", schema["name"]),
        "payload": {"schemaFormat": _AVRO, "schema": schema},
        "bindings": {"kafka": frame | _BINDING},
    }
    if name == "envelope":
        message["headers"] = {"type": "object", "properties": _HEADERS}
    return message
