"""The link as an AsyncAPI 3.0 document, which tools turn into pages, types and mocks.

Source: the AsyncAPI Specification 3.0.0 and version 0.1.0 of its WebSocket bindings.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import msgspec

from streams.serde.codec import COMMAND
from streams.serde.link.commands import BODIES, KINDS
from streams.serde.link.messages import VERSION, FromOwner, FromWorker

Document = dict[str, Any]

PATH = "/v1/link"
_SCHEMAS = "#/components/schemas/"
_SIDES = {"worker": FromWorker, "owner": FromOwner}


def asyncapi(host: str, *, tls: bool) -> Document:
    """The document of the link of an owner at `host`, a name and perhaps a port."""
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Tidegate: the link of a worker",
            "version": version("tidegate"),
            "description": f"Version {VERSION} of the protocol; docs/link.md explains it. A frame "
            "is an array of messages. Unknown fields are ignored.",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "servers": {
            "owner": {
                "host": host,
                "protocol": "wss" if tls else "ws",
                "security": [{"$ref": "#/components/securitySchemes/token"}],
            }
        },
        "channels": {"link": _channel()},
        "operations": {f"{side}.says": _operation(side) for side in _SIDES},
        "components": {
            "messages": {f"from_{side}": _frame(side) for side in _SIDES},
            "schemas": _schemas(),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _channel() -> Document:
    messages = {f"from_{side}": {"$ref": f"#/components/messages/from_{side}"} for side in _SIDES}
    binding = {"ws": {"method": "GET", "bindingVersion": "0.1.0"}}
    return {"address": PATH, "messages": messages, "bindings": binding}


def _operation(side: str) -> Document:
    """What a worker does: it sends its own frames, and receives those of the owner."""
    return {
        "action": "send" if side == "worker" else "receive",
        "channel": {"$ref": "#/channels/link"},
        "messages": [{"$ref": f"#/channels/link/messages/from_{side}"}],
    }


def _frame(side: str) -> Document:
    name = f"from_{side}"
    payload = {"type": "array", "items": {"$ref": _SCHEMAS + name}}
    return {"name": name, "summary": f"A frame of the {side}", "payload": payload}


def _schemas() -> Document:
    types = (*_SIDES.values(), *BODIES.values())
    found, schemas = msgspec.json.schema_components(types, ref_template=_SCHEMAS + "{name}")
    for side, union in zip(_SIDES, found, strict=False):
        # A discriminator is the name of a property here; OpenAPI's has a mapping besides.
        schemas[f"from_{side}"] = {"oneOf": union["anyOf"], "discriminator": "type"}
    for name, means in _meanings().items():
        schemas[name]["description"] = means
    order = schemas["Order"]
    order["oneOf"] = [_with_body(kind, body.__name__) for kind, body in BODIES.items()]
    return schemas


def _with_body(kind: str, name: str) -> Document:
    return {"properties": {"kind": {"const": kind}, "body": {"$ref": _SCHEMAS + name}}}


def _meanings() -> dict[str, str]:
    """What each command means, by the name of its body."""
    (body,) = (each for each in COMMAND.schema.parsed["fields"] if each["name"] == "body")
    bodies = {each["name"].rpartition(".")[2]: each["doc"] for each in body["type"]}
    return {each.__name__: bodies[each.__name__] for each in KINDS.values()}
