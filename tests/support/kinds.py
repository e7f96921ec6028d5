"""Whether objects of Kubernetes are valid: each kind by its own strict schema.

Kubernetes' kinds come from the package `kubernetes-validate`, the others from their custom resource
definitions. A kind without a schema is an error, and so is a field that the schema does not name.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import jsonschema
import kubernetes_validate
import yaml

from support import helm_tools

KUBERNETES = ("1.30", "1.37")
"""The oldest version that the chart takes, and the newest that the package knows."""


def problems(resource: dict[str, Any]) -> list[str]:
    """What is wrong with an object, one line each."""
    kind = f"{resource['kind']} {resource['metadata']['name']}"
    return [f"{kind}: {problem}" for problem in _problems(resource)]


def _problems(resource: dict[str, Any]) -> list[str]:
    custom = _custom().get((resource["apiVersion"], resource["kind"]))
    if custom is not None:
        found = jsonschema.Draft7Validator(custom).iter_errors(resource)
        return [f"{error.json_path}: {error.message}" for error in found]
    return [problem for version in KUBERNETES for problem in _own(resource, version)]


def _own(resource: dict[str, Any], version: str) -> list[str]:
    try:
        kubernetes_validate.validate(resource, version, strict=True)
    except kubernetes_validate.ValidationError as error:
        return [f"{version}: {'.'.join(map(str, error.path))}: {error.message}"]
    except kubernetes_validate.SchemaNotFoundError as error:
        return [error.message]
    return []


@cache
def _custom() -> dict[tuple[str, str], dict[str, Any]]:
    """The schemas of custom resources by API version and kind."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for path in helm_tools.crds().glob("*.yaml"):
        for definition in filter(None, yaml.load_all(path.read_text(), yaml.CSafeLoader)):
            spec = definition["spec"]
            for version in spec["versions"]:
                schema = _strict(version["schema"]["openAPIV3Schema"])
                schema["properties"]["metadata"] = {"type": "object"}
                found[f"{spec['group']}/{version['name']}", spec["names"]["kind"]] = schema
    return found


def _strict(schema: Any) -> Any:
    """A schema that refuses fields which the API server would silently drop."""
    if isinstance(schema, list):
        return [_strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: _strict(part) for name, part in schema.items()}
    if made.pop("x-kubernetes-int-or-string", False):
        made.pop("anyOf", None)
        made["type"] = ["integer", "string"]
    loose = made.pop("x-kubernetes-preserve-unknown-fields", False)
    if isinstance(made.get("properties"), dict) and made.get("type") == "object" and not loose:
        made.setdefault("additionalProperties", False)
    return made
