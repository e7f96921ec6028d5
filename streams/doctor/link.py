"""Judges what a worker meets at the owners of partitions: names, TLS, its token, the partitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import ip_address

from streams.doctor.finding import Check, Finding, counted, named
from streams.doctor.link_view import LinkSeen, Met
from streams.serde.link.messages import VERSION, Refused, Welcome

NAMES = Check("link", "names")
REACH = Check("link", "owners")
TLS = Check("link", "TLS")
TOKEN = Check("link", "token")
VERSIONS = Check("link", "protocol")
MAY = Check("link", "pool and types")
PARTITIONS = Check("link", "partitions")
ALL = (NAMES, REACH, TLS, TOKEN, VERSIONS, MAY, PARTITIONS)

_DAY = 86_400
_SOON_DAYS = 14
NEW_TOKEN = "set TIDEGATE_LINK_TOKEN to what `tidegate tokens create NAME --role worker` prints"  # noqa: S105
_OF = {
    "token": TOKEN,
    "revoked": TOKEN,
    "version": VERSIONS,
    "pool": MAY,
    "not_allowed": MAY,
}
_REMEDY = {
    TOKEN: NEW_TOKEN,
    VERSIONS: "install the same release at the worker and at the owners",
    MAY: "give the worker a token that allows it (`tidegate tokens create NAME --role worker "
    "--pool POOL --job-type TYPE`), or another pool",
}

Found = Iterator[Finding]


def names(seen: LinkSeen) -> Found:
    """Each name of TIDEGATE_LINK stands for some address."""
    for address, why in seen.nameless.items():
        yield NAMES.fail(
            f"{address.host} stands for no address: {why}",
            "correct the name in TIDEGATE_LINK, or its record: on Kubernetes it is that of the "
            "headless Service of the owners, and their pods must be there",
        )
    if not seen.nameless:
        told = named((met.target.name for met in seen.met), 8)
        yield NAMES.ok(f"{counted(len(seen.met), 'place')} to dial: {told}")


def reached(met: Sequence[Met]) -> list[Met]:
    """The places where an owner has answered."""
    return [each for each in met if each.answer is not None]


def reach(met: Sequence[Met]) -> Found:
    """Something answers at each place, and it is an owner."""
    for each in met:
        if each.broken is not None:
            yield REACH.fail(f"{each.target.name}: {each.broken}", _unreached(each))
        elif each.status is not None and each.status not in (401, 403):
            yield REACH.fail(
                f"{each.target.name} answers with HTTP {each.status}, which is no owner of "
                "partitions",
                "name in TIDEGATE_LINK the port of TIDEGATE_LINK_LISTEN; a proxy must pass on "
                "WebSockets of the path /v1/link",
            )
    if met and len(reached(met)) == len(met):
        yield REACH.ok(f"{counted(len(met), 'owner')} answered")


def _unreached(met: Met) -> str:
    if met.target.address.secure:
        return (
            "start the owner; if it has no certificate (TIDEGATE_LINK_CERT), write ws:// in "
            "TIDEGATE_LINK"
        )
    return (
        "start the owner with TIDEGATE_LINK_LISTEN, and let the worker reach its port; if it has a "
        "certificate, write wss:// in TIDEGATE_LINK"
    )


def tls(met: Sequence[Met], now: float) -> Found:
    """Owners show certificates that this worker believes, and that do not end soon."""
    for each in met:
        if each.distrust is not None:
            yield TLS.fail(_distrusted(each, now), _mend(each, now))
        elif each.certificate is not None and each.certificate.ends_at - now < _SOON_DAYS * _DAY:
            days = (each.certificate.ends_at - now) / _DAY
            yield TLS.warn(f"the certificate of {each.target.name} ends in {days:.1f} days", _RENEW)
    plain = [each.target.name for each in met if _is_open(each)]
    if plain:
        yield TLS.warn(
            f"the link to {named(plain)} is not encrypted: whoever can read the network sees the "
            "token and the jobs",
            "give the owners a certificate (TIDEGATE_LINK_CERT), and write wss:// in TIDEGATE_LINK",
        )
    shown = [each.certificate.ends_at for each in met if each.certificate and not each.distrust]
    if shown and len(shown) == len(reached(met)):
        days = (min(shown) - now) / _DAY
        if days >= _SOON_DAYS:
            yield TLS.ok(f"{counted(len(shown), 'certificate')}, the first ends in {days:.0f} days")
    elif met and not plain and not any(each.target.address.secure for each in met):
        yield TLS.ok("none, and the owners are on this machine")


_RENEW = "renew it at the owners (TIDEGATE_LINK_CERT): they read the file anew by themselves"


def _distrusted(met: Met, now: float) -> str:
    text = f"the certificate of {met.target.name} is not believed: {met.distrust}"
    shown = met.certificate
    if shown is None:
        return text
    if shown.ends_at <= now:
        return f"{text} (it ended {(now - shown.ends_at) / _DAY:.1f} days ago)"
    return f"{text} (it is for {named(shown.names) or 'no name'})"


def _mend(met: Met, now: float) -> str:
    shown = met.certificate
    if shown is not None and shown.ends_at <= now:
        return _RENEW
    if shown is not None and "match" in (met.distrust or "").lower():
        return (
            f"dial the owner by a name that its certificate has, or give it one for "
            f"{met.target.address.host}"
        )
    return "set TIDEGATE_LINK_CA to the certificate of the authority that signed it"


def _is_open(met: Met) -> bool:
    return not met.target.address.secure and not ip_address(met.target.ip).is_loopback


def admission(met: Sequence[Met], pool: str, types: Sequence[str] | None) -> Found:
    """Owners speak this version, take the token, and let it have the pool and the job types."""
    alike: dict[tuple[Check, str], list[str]] = {}
    for each in met:
        found = _refusal(each)
        if found is not None:
            alike.setdefault(found, []).append(each.target.name)
    for (check, why), places in alike.items():
        yield check.fail(f"{named(places)}: {why}", _REMEDY.get(check, _LOOK))
    took = [each for each in met if isinstance(each.answer, Welcome)]
    if took and len(took) == len(reached(met)) and not alike:
        yield TOKEN.ok(f"{counted(len(took), 'owner')} took it")
        yield VERSIONS.ok(f"version {VERSION} of the link")
        yield MAY.ok(f"the token allows the pool {pool}{_told(types)}")
        if types is None:
            yield MAY.skipped("which job types the worker has is not known", _APP)


_LOOK = "look at the log of the owner"
_APP = "give its application with --app MODULE:ATTRIBUTE"


def _told(types: Sequence[str] | None) -> str:
    return "" if types is None else f" and {counted(len(types), 'job type')}: {named(types)}"


def _refusal(met: Met) -> tuple[Check, str] | None:
    if met.status in (401, 403):
        return TOKEN, f"the upgrade is refused with HTTP {met.status}, perhaps by a proxy"
    if isinstance(met.answer, Refused):
        return _OF.get(met.answer.reason, REACH), met.answer.message
    return None


def partitions(met: Sequence[Met]) -> Found:
    """Somebody among those that can be dialed owns each partition."""
    took = [each.answer for each in met if isinstance(each.answer, Welcome)]
    if not took:
        yield PARTITIONS.skipped("no owner takes the worker")
        return
    widths = {welcome.partitions for welcome in took}
    if len(widths) > 1:
        yield PARTITIONS.fail(
            f"the owners have different numbers of partitions: {', '.join(map(str, widths))}",
            "give all processes the same topology; TIDEGATE_LINK may name two installations",
        )
        return
    (width,) = widths
    owned = {number for welcome in took for number in welcome.owned}
    without = sorted(set(range(width)) - owned)
    if without:
        yield PARTITIONS.fail(
            f"{len(without)} of {width} partitions have no owner among {len(took)}: "
            f"{_numbers(without)}",
            "add the addresses of the other owners to TIDEGATE_LINK, or start the owners; while "
            "one starts or ends, look again in some seconds",
        )
    else:
        yield PARTITIONS.ok(f"each of {width} partitions has an owner")


def _numbers(found: Sequence[int]) -> str:
    shown = ", ".join(map(str, found[:8]))
    return shown if len(found) <= 8 else f"{shown} and {len(found) - 8} more"
