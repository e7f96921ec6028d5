"""What a secret looks like: the presets, each a row of patterns.

A pattern matches a whole secret, or has a group named `secret` that does. Each is linear in the
text: it begins at a fixed word or where a run of its characters begins.
`unfinished` matches the end of a text that later text may complete; it may match more, never less.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass


def _always(_: str) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Preset:
    """Patterns of one kind of secret; `accepts` looks closer at what one of them matched."""

    patterns: tuple[re.Pattern[str], ...]
    unfinished: re.Pattern[str]
    accepts: Callable[[str], bool] = _always


def _any(*patterns: str) -> tuple[re.Pattern[str], ...]:
    return tuple(map(re.compile, patterns))


_NETWORKS = re.compile(
    r"""4(\d{12}|\d{15}|\d{18})                              # Visa
    |(5[1-5]\d\d|222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720)\d{12}  # Mastercard
    |3[47]\d{13}                                             # American Express
    |3(0[0-5]|[68]\d)\d{11}                                  # Diners Club
    |(6011|65\d\d|64[4-9]\d)\d{12}                           # Discover
    |35(2[89]|[3-8]\d)\d{12}                                 # JCB
    |62\d{14,17}                                             # UnionPay
    """,
    re.VERBOSE,
)
"""Lengths and first digits of card numbers, so that other long numbers stay."""


def _is_card(found: str) -> bool:
    """Whether digits are of a card's form, and their check digit is right (ISO/IEC 7812-1)."""
    digits = re.sub(r"[ -]", "", found)
    return _NETWORKS.fullmatch(digits) is not None and _luhn(digits) % 10 == 0


def _luhn(digits: str) -> int:
    doubled = (int(each) * 2 for each in digits[-2::-2])
    return sum(map(int, digits[-1::-2])) + sum(each - 9 * (each > 9) for each in doubled)


_ALONE, _ENDS = r"(?<![^\W_])", r"(?![^\W_])"
"""No digit or letter stands beside: a long hash has runs of digits that look like cards."""
_CARD = Preset(
    _any(
        rf"{_ALONE}\d{{4}}([ -])\d{{4}}\1\d{{4}}\1\d{{4}}{_ENDS}",
        rf"{_ALONE}\d{{4}}([ -])\d{{4}}\1\d{{4}}\1\d{{4}}\1\d{{3}}{_ENDS}",
        rf"{_ALONE}\d{{4}}([ -])\d{{6}}\1\d{{4,5}}{_ENDS}",
        rf"{_ALONE}\d{{13,19}}{_ENDS}",
    ),
    re.compile(r"(?<!\d)\d[\d -]{0,22}\Z"),
    _is_card,
)

_LOCAL = r"\w.!#$%&'*+/=?^`{|}~-"
_MAIL = Preset(
    _any(rf"(?<![{_LOCAL}])[{_LOCAL}]+(?:@|%40)[\w-]+(?:\.[\w-]+)+"),
    re.compile(rf"(?<![@{_LOCAL}])[@{_LOCAL}]++\Z"),
)

_TOKEN = Preset(
    _any(
        # Of any form, behind a word that says so.
        r"(?i:\b(?:bearer|basic)\s{1,8})(?P<secret>[\w.~+/=-]{12,})",
        r"(?i:(?:password|passwd|passphrase|secret|token|api[_-]?key|access[_-]?key)"
        r"""(?:\\{0,3}["'])?\s{0,8}[:=]\s{0,8}(?:\\{0,3}["'])?)"""
        r"""(?P<secret>(?:[^\s"'&,;<>(){}\[\]\\]|\\(?!\\{0,3}["'])){6,})""",
        r"://[^/\s:@?#]*:(?P<secret>[^/\s@?#]+)@",
        # JSON Web Tokens (RFC 7519).
        r"(?<![\w-])eyJ[\w-]{8,}\.[\w-]{4,}(?:\.[\w-]*)?",
        # As vendors prefix theirs, so that they can be found.
        r"\b(?:sk|pk|rk)_(?:live|test)_[A-Za-z0-9]{8,}",  # Stripe
        r"\bwhsec_[A-Za-z0-9+/=]{16,}",
        r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,})",
        r"\bglpat-[\w-]{16,}",  # GitLab
        r"\bx(?:ox[a-z]|app)-[A-Za-z0-9-]{10,}",  # Slack
        r"\bA(?:KIA|SIA)[0-9A-Z]{16}\b",  # AWS
        r"\bAIza[\w-]{35}",  # Google
        r"\bya29\.[\w-]{10,}",
        r"\bsk-[\w-]{20,}",  # Anthropic, OpenAI
        r"\bhv[sbr]\.[\w-]{16,}",  # HashiCorp Vault
        r"\bSG\.[\w-]{16,}\.[\w-]{16,}",  # SendGrid
        r"\bnpm_[A-Za-z0-9]{30,}",
        r"\btg_[0-9a-v]{16}_[0-9a-v]{20,}(?:_[0-9a-f]{8})?",  # Tidegate's own
        r"-----BEGIN [A-Z ]{0,32}PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]{0,32}KEY-----|\Z)",
    ),
    re.compile(
        # Possessive, so that each sign is looked at a few times, whatever comes.
        r"-----BEGIN (?:(?!-----(?:END|BEGIN ))[\s\S])*+\Z"
        r"|(?i:\b(?:bearer|basic)\s{1,8}+)\S*+\Z"
        r"""|(?<!\S)\S*+(?:(?<=[\w"'-][:=])\s{1,8}+|(?<=[\w"'-])\s{1,8}+[:=]\s{0,8}+)\S*+\Z"""
        r"|(?<!\S)\S++\s{0,8}+\Z"
    ),
)

PRESETS: Mapping[str, Preset] = {"card": _CARD, "mail": _MAIL, "token": _TOKEN}
