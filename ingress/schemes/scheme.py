"""A signing scheme: all that is particular to one kind of sender, as one value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ingress.schemes.keys import any_secret
from ingress.schemes.options import SchemeOptions
from ingress.schemes.preset import Preset
from ingress.schemes.request import SignedRequest, Signer, Verifier


@dataclass(frozen=True, slots=True)
class Answer:
    """What to answer, instead of storing an event; the body may be empty."""

    status: int
    body: bytes
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


Challenge = Callable[[SignedRequest], Answer | None]
"""The answer to an unsigned request that is a question of a vendor, or None."""


@dataclass(frozen=True, slots=True)
class Success:
    """How an accepted event is answered: the status, and whether the body must be empty."""

    status: int = 202
    empty: bool = False


ACCEPTED = Success()
OK = Success(200)
"""For a vendor that repeats or reports every delivery that is answered otherwise."""
OK_EMPTY = Success(200, empty=True)
NO_CONTENT = Success(204, empty=True)


@dataclass(frozen=True, slots=True)
class Scheme:
    """How its sender signs, what it puts where, and what it asks before it sends events.

    `verifier` makes a verifier of parsed `options`, and `signer` signs as the sender would.
    `decode_secret` raises `SignatureError` for a secret that the scheme cannot verify with. With
    `public_key` a source's secret is one, and the signer takes the sender's private key.
    `handshake` is the answer to a JSON object that was signed under a secret, or None where that is
    an event. `challenge` is the answer to a question that nothing signs, or None for any other
    request. `success` is the answer that its vendor takes for a success.
    """

    preset: Preset
    verifier: Callable[[Any], Verifier]
    signer: Callable[[Any], Signer]
    options: type[SchemeOptions] = SchemeOptions
    decode_secret: Callable[[bytes], object] = any_secret
    handshake: Callable[[dict[str, Any], bytes], Answer | None] | None = None
    challenge: Callable[[Any, SignedRequest], Answer | None] | None = None
    public_key: bool = False
    success: Success = ACCEPTED
