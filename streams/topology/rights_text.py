"""The rights of users as `kafka-acls` commands, as Strimzi's `KafkaUser` objects, and as JSON.

Sources: kafka-acls of Apache Kafka 4.3; the schema of KafkaUser `kafka.strimzi.io/v1`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, NamedTuple

import yaml

from streams.errors import ConfigError
from streams.topology.rights import Operation, Resource, Right, User

_STRIMZI_TYPES: dict[Resource, str] = {
    "topic": "topic",
    "group": "group",
    "transactional_id": "transactionalId",
}
_KUBERNETES_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST_NAME = 63


class _Granted(NamedTuple):
    """A resource, and all that a user may do with it."""

    resource: Resource
    name: str
    prefixed: bool
    operations: tuple[Operation, ...]


def default_user_prefix(topic_prefix: str) -> str:
    """What users' names begin with: two installations on one Kafka should not share a user."""
    words = re.findall("[A-Za-z0-9]+", topic_prefix)
    return "-".join(["tidegate", *words, ""])


def as_commands(users: Iterable[User], user_prefix: str, bootstrap: str) -> str:
    """A shell script of `kafka-acls.sh`; one command for all that a user may do alike."""
    lines = ["# Run these as a user that may alter ACLs; admin.properties has its settings."]
    start = f"kafka-acls.sh --bootstrap-server {shlex.quote(bootstrap)}"
    for user in users:
        principal = shlex.quote(f"User:{user_prefix}{user.process}")
        lines += ["", f"# {user.process}"]
        for options in _commands(user):
            lines += [
                f"{start} --command-config admin.properties --add --allow-principal {principal} \\",
                f"  {options}",
            ]
    return "\n".join(lines)


def _commands(user: User) -> Iterator[str]:
    def alike(each: _Granted) -> tuple[str, bool, tuple[str, ...]]:
        return each.resource, each.prefixed, each.operations

    granted = sorted(_granted(user), key=alike)
    for (resource, prefixed, operations), each in groupby(granted, alike):
        option = f"--{resource.replace('_', '-')}"
        yield " ".join(
            [
                *(f"--operation {operation}" for operation in operations),
                *(["--resource-pattern-type prefixed"] if prefixed else []),
                *(f"{option} {shlex.quote(one.name)}" for one in each),
            ]
        )


def as_strimzi(users: Iterable[User], user_prefix: str, cluster: str) -> str:
    """A YAML document for each user.

    Raises:
        ConfigError: Kubernetes allows no object of a user's name.
    """
    return str(
        yaml.safe_dump_all(
            [_kafka_user(user, user_prefix, cluster) for user in users],
            sort_keys=False,
            explicit_start=True,
        )
    ).rstrip("\n")


def _kafka_user(user: User, user_prefix: str, cluster: str) -> dict[str, Any]:
    acls = [
        {
            "resource": {
                "type": _STRIMZI_TYPES[each.resource],
                "name": each.name,
                "patternType": "prefix" if each.prefixed else "literal",
            },
            "operations": list(each.operations),
            "host": "*",
        }
        for each in _granted(user)
    ]
    name = _object_name(user_prefix + user.process)
    return {
        "apiVersion": "kafka.strimzi.io/v1",
        "kind": "KafkaUser",
        "metadata": {"name": name, "labels": {"strimzi.io/cluster": cluster}},
        "spec": {
            "authentication": {"type": "scram-sha-512"},
            "authorization": {"type": "simple", "acls": acls},
        },
    }


def _object_name(name: str) -> str:
    if len(name) <= _LONGEST_NAME and _KUBERNETES_NAME.fullmatch(name):
        return name
    raise ConfigError(
        f"no KafkaUser can be named {name!r}: it may have {_LONGEST_NAME} small letters, digits, "
        "'-' and '.'. Give another --user-prefix or rename the pool, or take `--format kafka-acls`"
    )


def as_json(users: Iterable[User], user_prefix: str) -> list[dict[str, Any]]:
    """Each user with each of its rights by itself."""
    return [
        {
            "process": user.process,
            "user": user_prefix + user.process,
            "rights": [
                {
                    "resource": right.resource,
                    "name": right.name,
                    "pattern": "prefixed" if right.prefixed else "literal",
                    "operation": right.operation,
                }
                for right in user.rights
            ],
        }
        for user in users
    ]


def _granted(user: User) -> Iterator[_Granted]:
    def place(right: Right) -> tuple[Resource, str, bool]:
        return right.resource, right.name, right.prefixed

    for (resource, name, prefixed), each in groupby(sorted(user.rights, key=place), place):
        yield _Granted(resource, name, prefixed, tuple(right.operation for right in each))
