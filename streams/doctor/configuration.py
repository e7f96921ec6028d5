"""Judges what a process is told: the topology, keys, a token, settings of Kafka's client."""

from __future__ import annotations

import shlex
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from streams.doctor.finding import Check, Finding, counted
from streams.doctor.secret_view import SecretsSeen
from streams.errors import ConfigError
from streams.settings import Settings
from streams.stages import STAGES
from streams.topology.load import Checked
from streams.topology.model import FUSED, Topology
from streams.vault.key_encryption import open_vault

TOPOLOGY = Check("settings", "topology")
VAULT = Check("settings", "vault key")
SEALED = Check("settings", "sealed secrets")
TOKEN = Check("settings", "admin token")
CLIENT = Check("settings", "kafka client")
CERTIFICATES = Check("settings", "certificates")
ASIDE = Check("settings", "set_aside")

_DAY = 86_400
_SOON_DAYS = 14
_RENEW = "put a valid one in its place, and restart the processes that read it"
_SHORTEST_TOKEN = 16
_NEW_TOKEN = (
    "set TIDEGATE_ADMIN_TOKEN to what `openssl rand -hex 32` prints, for the operator and for "  # noqa: S105
    "whoever calls it, and restart the operator"
)
_OWN = (
    "group.id",
    "group.instance.id",
    "transactional.id",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "auto.offset.reset",
    "session.timeout.ms",
    "transaction.timeout.ms",
)
"""What the processes decide themselves: one value for all clients breaks some of them."""
_GIVEN = {
    "acks": ("all", "-1"),
    "enable.idempotence": ("true",),
    "isolation.level": ("read_committed",),
}
"""Settings of the client on which guarantees rest, with the values that keep them."""

Found = Iterator[Finding]


def topology(found: Checked | ConfigError, file: Path | None = None) -> Found:
    """The file is valid, and each part of it has an effect."""
    named = () if file is None else ("--topology", str(file))
    validate = shlex.join(["tidegate", "topology", "validate", *named])
    if isinstance(found, ConfigError):
        lines = str(found).splitlines()
        more = f" (and {counted(len(lines) - 1, 'more problem')})" if len(lines) > 1 else ""
        yield TOPOLOGY.fail(f"the topology is not valid: {lines[0]}{more}", validate)
        return
    for warning in found.warnings:
        yield TOPOLOGY.warn(warning, validate)
    if not found.warnings:
        told = f"{counted(len(found.topology.topics), 'topic')}"
        yield TOPOLOGY.ok(f"it is valid: {told}, {counted(len(found.topology.routes), 'route')}")


def keys(settings: Settings, stage: str | None) -> Found:
    """Keys and token: those that are set, and those that the stage needs."""
    needs = STAGES[stage].needs if stage else ()
    if settings.vault_key_file or settings.vault_keys or "TIDEGATE_VAULT_KEY_FILE" in needs:
        yield from _key(VAULT, lambda: open_vault(settings), settings.vault_key_file)
    does_without = stage == "operator" and not settings.take_admin_token
    if settings.admin_token or ("TIDEGATE_ADMIN_TOKEN" in needs and not does_without):
        yield from _token(settings)


def _key(check: Check, read: Callable[[], object], paths: tuple[Path, ...]) -> Found:
    try:
        read()
    except ConfigError as error:
        yield check.fail(str(error).partition(": name a file")[0], _MOUNT_KEY)
        return
    open_to_all = [path for path in paths if path.stat().st_mode & stat.S_IROTH]
    for path in open_to_all:
        yield check.warn(
            f"every user of this machine can read {path}", f"chmod o-rwx {shlex.quote(str(path))}"
        )
    if not open_to_all:
        yield check.ok(f"{counted(max(1, len(paths)), 'key')} of 32 bytes")


_MOUNT_KEY = (
    "mount the key that the other processes have, so that this user can read it: another key opens "
    "nothing of theirs. Only for a new installation make one: `head -c 32 /dev/urandom > FILE`"
)


def opens_vault(settings: Settings, stage: str | None) -> bool:
    """Whether a vault key is set, for a process that needs it."""
    return bool(settings.vault_key_file or settings.vault_keys) and (
        stage is None or "TIDEGATE_VAULT_KEY_FILE" in STAGES[stage].needs
    )


def sealed(seen: SecretsSeen) -> Found:
    """The vault keys open what tenants have."""
    records = counted(seen.open + len(seen.closed), "sealed record")
    if seen.closed:
        yield SEALED.fail(
            f"the vault keys do not open {len(seen.closed)} of {records}: {seen.closed[0]}",
            _ADD_KEY,
        )
    elif seen.open:
        yield SEALED.ok(f"the vault keys open {records} of the topic tenants")
    else:
        yield SEALED.ok("the newest records of the topic tenants have nothing sealed")


_ADD_KEY = (
    "add the key under which it was sealed to TIDEGATE_VAULT_KEY_FILE (or TIDEGATE_VAULT_KEYS: "
    "the first key seals, each of them opens), and restart the process; if that key is lost, set "
    "sources and endpoints again: bodies that it sealed are lost"
)


def _token(settings: Settings) -> Found:
    given = settings.admin_token.get_secret_value().strip() if settings.admin_token else ""
    if not given:
        yield TOKEN.fail("no admin token is set, which the operator's API needs", _NEW_TOKEN)
    elif len(given) < _SHORTEST_TOKEN:
        yield TOKEN.warn(
            f"the admin token has fewer than {_SHORTEST_TOKEN} characters, so it can be guessed",
            _NEW_TOKEN,
        )
    else:
        yield TOKEN.ok(f"it has {_SHORTEST_TOKEN} characters or more")


def kafka_client(settings: Settings) -> Found:
    """What is passed to librdkafka overrides what the processes set; no value is shown."""
    told = 0
    for name, value in sorted(settings.kafka.items()):
        wanted = _GIVEN.get(name)
        if name in _OWN or (wanted and value.lower() not in wanted):
            told += 1
            yield CLIENT.fail(
                f"{name} is passed to every client of Kafka, and Tidegate's guarantees rest on its "
                "own value",
                f"unset {_variable(name)} (or {name} in [kafka] of tidegate.toml)",
            )
    if not told:
        yield CLIENT.ok(_passed(settings))


def _passed(settings: Settings) -> str:
    protocol = settings.kafka.get("security.protocol", "plaintext").upper()
    count = counted(len(settings.kafka), "setting")
    return f"{protocol}, {count} passed on" if settings.kafka else "the defaults: PLAINTEXT"


def _variable(name: str) -> str:
    return f"TIDEGATE_KAFKA_{name.upper().replace('.', '_')}"


def certificates(found: Iterable[tuple[str, float | None]], now: float) -> Found:
    """The certificates that the settings name can be read and do not end soon."""
    left = {use: None if end is None else (end - now) / _DAY for use, end in found}
    for use, days in left.items():
        what = use.replace("_", " ")
        if days is None:
            yield CERTIFICATES.fail(f"the certificate of the {what} cannot be read", _RENEW)
        elif days <= 0:
            yield CERTIFICATES.fail(f"the certificate of the {what} has ended", _RENEW)
        elif days < _SOON_DAYS:
            yield CERTIFICATES.warn(
                f"the certificate of the {what} ends in {days:.1f} days", _RENEW
            )
    if left and all(days is not None and days >= _SOON_DAYS for days in left.values()):
        yield CERTIFICATES.ok(f"{counted(len(left), 'file')}, none ends within {_SOON_DAYS} days")


def set_aside(settings: Settings) -> Found:
    """A record that is named here goes to the dead letters unprocessed."""
    if settings.set_aside:
        yield ASIDE.warn(
            f"{counted(len(settings.set_aside), 'record')} would go to `dlq` unprocessed",
            "once the stage is past it: unset TIDEGATE_SET_ASIDE, and restart the stage",
        )


def databases(topology: Topology, stage: str) -> int:
    """How many databases a process of a stage opens if it gets every partition."""
    names = topology.fused if stage == FUSED else (stage,)
    stores = sum(len(topology.stages[name].stores) for name in names if name in topology.stages)
    return stores * topology.partitions
