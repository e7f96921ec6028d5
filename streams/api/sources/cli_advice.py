"""What a command says of a source's secrets: which still verify, and what to do about them."""

from __future__ import annotations

from collections.abc import Sequence

from streams.cli.operator_command import Answer, Api
from streams.errors import ConfigError


def has_a_secret(api: Api, name: str, tenant: str) -> ConfigError:
    """Why no secret is made: the one that the vendor signs with would be over."""
    rotate = api.command("sources", "rotate", name, "--tenant", tenant, "--generate")
    return ConfigError(
        f"source {name} of tenant {tenant} has a secret, and nothing is changed: leave --generate "
        f"out to keep it, or let both verify for a day with `{rotate}`"
    )


def after_rotation(api: Api, source: Answer, url: str, *, at_once: bool) -> list[str]:
    """Until when each old secret verifies, and what to do by then."""
    of = ("--tenant", source["tenant_id"])
    ends = sorted(each["valid_until"] for each in source["old_secrets"])
    old, by, after = _ends(ends)
    told = [
        old,
        f"have the vendor that calls {url} sign with the new one {'now' if at_once else by}",
        f"what is signed otherwise{after} is refused, and counted by "
        f"`{api.command('rejections', 'list', *of)}`",
    ]
    if ends:
        again = api.command("sources", "set", source["source"], *of, "--secret-file", "FILE")
        told.append(f"to end every old secret at once, set the new one from its file: `{again}`")
    return told


def _ends(ends: Sequence[str]) -> tuple[str, str, str]:
    """That old secrets verify, by when the vendor needs the new one, and when none verifies."""
    if not ends:
        return "no old secret verifies any more", "now", ""
    if len(ends) == 1:
        return f"one old secret verifies, until {ends[0]}", "before then", " from then on"
    each = f"{', '.join(ends[:-1])} and {ends[-1]}"
    old = f"{len(ends)} old secrets verify, until {each}"
    return old, "before the first of them", f" from {ends[-1]} on"
