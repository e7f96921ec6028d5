"""Whether an owner takes the worker that says hello, and the identity that it gets."""

from __future__ import annotations

import re
from collections.abc import Collection
from uuid import UUID

from streams.link.grant import Grant
from streams.link.terms import Terms
from streams.serde.link.bounds import MOST
from streams.serde.link.messages import VERSION, Hello, Refused, Welcome
from streams.serde.records import Handler

_MOST_CHARS = 1_000
_MOST_HANDLERS = 1_000
"""Each lease that is made looks at the types of those that are connected."""
_LONGEST_TYPE = 255
_MOST_PAUSES = 100
"""Each job's record has the pauses of its policy."""
_NAME = re.compile(r"[^\s/@]{1,200}")


def refusal(hello: Hello, grant: Grant, terms: Terms) -> Refused | None:
    """Return why a worker may not stay, or None."""
    if hello.version != VERSION:
        message = f"this owner speaks version {VERSION} of the link: install the matching worker"
        return Refused("version", message)
    if not _is_sound(hello):
        message = (
            "a name has 1 to 200 printable characters without blanks, / and @, a boot is a UUIDv7, "
            f"and there are {_MOST_HANDLERS:,} handlers at most; a type has 1 to {_LONGEST_TYPE} "
            f"printable characters, a policy {_MOST_PAUSES} pauses at most, its numbers are from 0 "
            f"to {MOST:,}, and the version of the code has {_MOST_CHARS:,} characters at most"
        )
        return Refused("malformed", message)
    if hello.pool not in terms.pools:
        pools = ", ".join(sorted(terms.pools))
        return Refused("pool", f"there is no pool {hello.pool}: use one of {pools}, or declare it")
    if not grant.allows_pool(hello.pool):
        return Refused("not_allowed", f"the token does not allow the pool {hello.pool}")
    denied = sorted(each.type for each in hello.handlers if not grant.allows_type(each.type))
    if denied:
        return Refused("not_allowed", f"the token does not allow the types {', '.join(denied)}")
    return None


def welcome(worker_id: str, terms: Terms, owned: Collection[int]) -> Welcome:
    """Return what a worker that may stay is told."""
    leases = terms.leases
    return Welcome(
        VERSION,
        worker_id,
        terms.owner,
        terms.partitions,
        tuple(sorted(owned)),
        leases.heartbeat_seconds,
        leases.term_seconds,
        leases.margin_seconds,
    )


def name_of(hello: Hello, grant: Grant) -> str:
    """The name of a worker, which all its boots share.

    The token is a part of it: so nobody with another token speaks for this worker, whatever name
    and boot it says. No pool has a colon in its name: so two workers have two names.
    """
    whose = f"@{grant.id}" if grant.id else ""
    return f"{hello.pool}:{hello.name}{whose}"


def worker_id(hello: Hello, grant: Grant) -> str:
    """The identity of a worker, as leases name it; each owner gives it the same one."""
    return f"{name_of(hello, grant)}/{hello.boot}"


def _is_sound(hello: Hello) -> bool:
    try:
        boot = UUID(hello.boot)
    except ValueError:
        return False
    canonical = str(boot) == hello.boot and boot.version == 7
    named = _NAME.fullmatch(hello.name) is not None and hello.name.isprintable()
    few = len(hello.handlers) <= _MOST_HANDLERS
    return canonical and named and few and all(map(_is_within, hello.handlers))


def _is_within(handler: Handler) -> bool:
    """Whether the stage can count with a policy, and write it into the records of jobs."""
    if len(handler.backoff) > _MOST_PAUSES:
        return False
    numbers = handler.max_attempts, handler.timeout_seconds, *handler.backoff
    counts = all(0 <= number <= MOST for number in numbers)
    named = 0 < len(handler.type) <= _LONGEST_TYPE and handler.type.isprintable()
    return counts and named and len(handler.code or "") <= _MOST_CHARS
