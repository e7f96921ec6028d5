"""A broker that authorizes: a user for each process, with the rights that a test gives it.

Users come over SASL_SSL with SCRAM. The broker itself and its administrator are the super user of
`support.secured`. The authorizer's own log says by which right each request was allowed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from streams.broker import java
from streams.broker.embedded import EmbeddedKafka
from support.conditions import eventually
from support.secured import BrokerSecurity, ConfiguredKafka, self_signed

_PASSWORD = "a password of every user"
_LOGGING = """
appender.audit.type = File
appender.audit.name = audit
appender.audit.fileName = ${sys:tidegate.kafka.dir}/audit.log
appender.audit.layout.type = PatternLayout
appender.audit.layout.pattern = %m%n
logger.audit.name = kafka.authorizer.logger
logger.audit.level = debug
logger.audit.additivity = false
logger.audit.appenderRef.audit.ref = audit
"""
_ALLOWED = re.compile(
    r"Principal = User:(?P<user>\S+) is (?P<verdict>\w+) operation = (?P<operation>\w+) from .*"
    r" on resource = (?P<kind>\w+):LITERAL:(?P<name>\S+) for request = (?P<request>\w+)"
    r".* based on rule (?P<rule>.*)"
)
_RULE = re.compile(r"resourceType=(\w+), resourceName=(\S+), patternType=(\w+), .* operation=(\w+)")


class Grant(NamedTuple):
    """A right of a user, with names in capitals as Kafka's own protocol has them."""

    user: str
    resource: str
    name: str
    prefixed: bool
    operation: str

    @classmethod
    def of(cls, user: str, right: Mapping[str, str]) -> Grant:
        """From the JSON of `tidegate topology describe --acls --json`."""
        operation = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", right["operation"]).upper()
        resource = right["resource"].upper()
        return cls(user, resource, right["name"], right["pattern"] == "prefixed", operation)

    def __str__(self) -> str:
        kind = f"{self.resource.lower()} {self.name}{'*' if self.prefixed else ''}"
        return f"{self.user}: {self.operation} {kind}"

    @property
    def _place(self) -> tuple[Any, ...]:
        pattern = ResourcePatternType.PREFIXED if self.prefixed else ResourcePatternType.LITERAL
        operation = AclOperation[self.operation]
        kind = ResourceType[self.resource]
        user = f"User:{self.user}"
        return kind, self.name, pattern, user, "*", operation, AclPermissionType.ALLOW

    @property
    def binding(self) -> AclBinding:
        return AclBinding(*self._place)

    @property
    def filter(self) -> AclBindingFilter:
        return AclBindingFilter(*self._place)


class Decision(NamedTuple):
    """What the authorizer did with a request; `rule` is None where it denied."""

    user: str
    operation: str
    resource: str
    name: str
    request: str
    rule: Grant | None


@dataclass
class AuthorizingKafka:
    """The broker, its administrator, and what its authorizer has logged."""

    broker: EmbeddedKafka
    security: BrokerSecurity
    directory: Path
    _admin: AdminClient = field(init=False)
    _users: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._admin = AdminClient(self.client())

    @property
    def bootstrap(self) -> str:
        return self.broker.bootstrap

    @property
    def admin(self) -> AdminClient:
        return self._admin

    def client(self, user: str | None = None) -> dict[str, Any]:
        """librdkafka's settings of a user, of the administrator without one."""
        own = self.security.client_settings
        if user is not None:
            own = {
                **own,
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": user,
                "sasl.password": _PASSWORD,
            }
        return {"bootstrap.servers": self.bootstrap, "log_level": 0, **own}

    def environ(self, user: str) -> dict[str, str]:
        """The settings of a process that connects as a user."""
        settings = self.client(user)
        return {
            f"TIDEGATE_KAFKA_{name.upper().replace('.', '_')}": str(value)
            for name, value in settings.items()
            if name not in ("bootstrap.servers", "log_level")
        } | {"TIDEGATE_BOOTSTRAP": self.bootstrap}

    def add_user(self, user: str) -> None:
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        change = UserScramCredentialUpsertion(user, info, _PASSWORD.encode())
        for done in self._admin.alter_user_scram_credentials([change]).values():
            done.result(10)
        eventually(lambda: self._knows(user), what=f"the broker knows {user}")

    def _knows(self, user: str) -> bool:
        try:
            AdminClient(self.client(user)).list_topics(timeout=3)
        except KafkaException:
            return False
        return True

    def grant(self, grants: Iterable[Grant]) -> None:
        """Give rights, and return once the authorizer has them."""
        grants = list(grants)
        for done in self._admin.create_acls([each.binding for each in grants]).values():
            done.result(10)
        wanted = set(grants)
        eventually(lambda: wanted <= self._granted(), what="the authorizer has the rights")

    def revoke(self, grant: Grant) -> None:
        """Take a right away, and return once the authorizer no longer has it."""
        for done in self._admin.delete_acls([grant.filter]).values():
            assert len(done.result(10)) == 1, f"there was no such right: {grant}"
        eventually(lambda: grant not in self._granted(), what="the right is gone")

    def _granted(self) -> set[Grant]:
        every = AclBindingFilter(
            ResourceType.ANY,
            None,  # type: ignore[arg-type]
            ResourcePatternType.ANY,
            None,  # type: ignore[arg-type]
            None,  # type: ignore[arg-type]
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        return {
            Grant(
                each.principal.removeprefix("User:"),
                each.restype.name,
                each.name,
                each.resource_pattern_type is ResourcePatternType.PREFIXED,
                each.operation.name,
            )
            for each in self._admin.describe_acls(every).result(10)
        }

    def decisions(self) -> list[Decision]:
        """All that the authorizer has logged, of users that are not the super user."""
        found = []
        for line in (self.directory / "kafka" / "audit.log").read_text().splitlines():
            told = _ALLOWED.match(line)
            if told is None or told["user"] == self.security.username:
                continue
            allowed = told["verdict"] == "Allowed"
            rule = _rule(told["user"], told["rule"]) if allowed else None
            facts = told["user"], told["operation"], told["kind"], told["name"], told["request"]
            found.append(Decision(*facts, rule))
        return found


def _rule(user: str, text: str) -> Grant | None:
    found = _RULE.search(text)
    if found is None:
        return None
    resource, name, pattern, operation = found.groups()
    return Grant(user, resource, name, pattern == "PREFIXED", operation)


@contextmanager
def authorizing(directory: Path) -> Iterator[AuthorizingKafka]:
    """A broker with Kafka's own authorizer, which allows nothing that no right allows."""
    security = self_signed(directory)
    logging = directory / "log4j2.properties"
    logging.write_text(java._LOGGING.read_text() + _LOGGING)
    extra = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "false",
        "super.users": f"User:{security.username}",
        "listener.name.clients.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.clients.scram-sha-512.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
    }
    broker = ConfiguredKafka(directory / "broker", security=security, extra=extra)
    with patch.object(java, "_LOGGING", logging), broker:
        yield AuthorizingKafka(broker, security, directory / "broker")
