"""A demo on a cluster of its user's: under a prefix of its own, and removed afterwards."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from streams.demo.run.signals import once_more_to_interrupt
from streams.errors import TidegateError
from streams.kafka.admin import admin_client
from streams.kafka.clients import wait_for_broker
from streams.kafka.groups import listed_groups
from streams.settings import Settings

_ANSWER_SECONDS = 10.0
_EMPTY_SECONDS = 45.0
"""How long members of a group that were killed may count as its members, and a bit more."""
_POLL_SECONDS = 0.5
_GONE = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.GROUP_ID_NOT_FOUND}


def prefixed(settings: Settings) -> Settings:
    """These settings with a new prefix, under which nobody else has a topic or group."""
    prefix = f"{settings.topic_prefix}tidegate-demo-{secrets.token_hex(4)}."
    return settings.model_copy(update={"topic_prefix": prefix})


@contextmanager
def removed_afterwards(settings: Settings, tell: Callable[[str], None]) -> Iterator[None]:
    """Remove every topic and consumer group of the settings' prefix on leaving.

    SIGTERM or Ctrl-C during the removal does not end it; a second one does.

    Raises:
        KafkaUnavailable: no broker answers.
        TidegateError: the cluster refuses to remove something, or the removal was interrupted; it
            names what is left.
    """
    wait_for_broker(settings, _ANSWER_SECONDS)
    tell(
        f"on {settings.bootstrap}: topics and groups of this run begin with "
        f"{settings.topic_prefix} and are removed at its end; no broker is touched"
    )
    try:
        yield
    finally:
        topics, groups = _removed_in_any_case(settings, tell)
        tell(f"removed {topics} topics and {groups} consumer groups from {settings.bootstrap}")


def _removed_in_any_case(settings: Settings, tell: Callable[[str], None]) -> tuple[int, int]:
    ours = f"what begins with {settings.topic_prefix}"

    def explain() -> None:
        tell(f"still removing {ours} from {settings.bootstrap}; once more leaves the rest there")

    try:
        with once_more_to_interrupt(explain):
            return remove(settings)
    except KeyboardInterrupt:
        raise TidegateError(
            f"the removal was interrupted: {ours} may be left on {settings.bootstrap}; delete "
            "those topics and consumer groups with the cluster's own tools"
        ) from None


def remove(settings: Settings) -> tuple[int, int]:
    """Delete the topics of a prefix, then its groups; returns how many there were.

    Raises:
        TidegateError: as `removed_afterwards` does.
    """
    admin, prefix = admin_client(settings), settings.topic_prefix
    try:
        topics = [name for name in admin.list_topics(timeout=15).topics if name.startswith(prefix)]
        left = _refused(topics, admin.delete_topics)
        groups = _groups(admin, prefix)
        left += _emptied(groups, admin)
    except KafkaException as error:
        raise TidegateError(
            f"the cluster at {settings.bootstrap} did not let everything under {prefix} be removed "
            f"({error.args[0].str()}); delete what begins so with its own tools"
        ) from error
    if left:
        raise TidegateError(
            f"the cluster at {settings.bootstrap} did not let these be removed: "
            f"{', '.join(sorted(left))}; delete them with its own tools"
        )
    return len(topics), len(groups)


def _groups(admin: AdminClient, prefix: str) -> list[str]:
    names = (group.group_id for group in listed_groups(admin, 15))
    return [name for name in names if name.startswith(prefix)]


def _emptied(groups: list[str], admin: AdminClient) -> list[str]:
    """Delete groups as soon as they have no members; returns those that are still there."""
    until = time.monotonic() + _EMPTY_SECONDS
    left = groups
    while (left := _refused(left, admin.delete_consumer_groups)) and time.monotonic() < until:
        time.sleep(_POLL_SECONDS)
    return left


def _refused(names: list[str], call: Callable[..., dict[str, Future[Any]]]) -> list[str]:
    """Delete these; returns the names that are still there."""
    if not names:
        return []
    refused = []
    for name, future in call(names, request_timeout=15).items():
        try:
            future.result()
        except KafkaException as error:
            if error.args[0].code() not in _GONE:
                refused.append(name)
    return refused
