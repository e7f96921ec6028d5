"""Where a command gets a signing secret: a file, standard input, a prompt; never from a flag."""

from __future__ import annotations

import base64
import secrets
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from ingress.schemes import SCHEMES

SecretFile = Annotated[
    Path | None,
    typer.Option(help="File with the secret; - reads it from standard input.", metavar="FILE"),
]
SecretRef = Annotated[
    str | None,
    typer.Option(help="Where each ingress finds it: env:NAME or file:/path.", metavar="REF"),
]
Generate = Annotated[
    bool,
    typer.Option(
        "--generate",
        help="Make a secret, and show it once: for samples, and vendors that let you choose.",
    ),
]

_STANDARD_INPUT = Path("-")
_RANDOM_BYTES = 32


@dataclass(frozen=True, slots=True)
class GivenSecret:
    """A secret or a reference as the API takes it; `made` is a generated one, to be shown."""

    body: dict[str, str] = field(repr=False)
    made: str | None = field(default=None, repr=False)

    @property
    def shown(self) -> dict[str, str]:
        """What the command's answer tells of it."""
        return {} if self.made is None else {"generated_secret": self.made}


NONE = GivenSecret({})


def given_secret(
    file: Path | None, reference: str | None, generate: bool, scheme: str
) -> GivenSecret | None:
    """The secret that the options name, or None if they name none.

    Raises:
        BadParameter: they name several, or one that cannot be read or generated.
    """
    named = named_secret(file, reference, generate, "--generate")
    if named:
        return GivenSecret(named)
    return _generated(scheme) if generate else None


def named_secret(
    file: Path | None, reference: str | None, other: bool, flag: str
) -> dict[str, str]:
    """The secret of a file, or a reference, as the API takes it; empty without one.

    Raises:
        BadParameter: several are given, among them the `other` way, whose option is `flag`.
    """
    if (file is not None) + (reference is not None) + other > 1:
        raise typer.BadParameter(f"give only one of --secret-file, --secret-ref and {flag}")
    if file is not None:
        return {"secret": read_secret(file)}
    return {} if reference is None else {"secret_ref": reference}


def asked_secret(scheme: str) -> GivenSecret:
    """The secret that a person types, without being shown.

    Raises:
        BadParameter: standard input is no terminal, so that nobody can be asked.
    """
    if not at_terminal():
        raise typer.BadParameter(
            "it needs a secret: give --secret-file FILE, --secret-file - to read standard input, "
            "--secret-ref, or --generate"
        )
    return GivenSecret({"secret": typer.prompt(f"Secret of {scheme}", hide_input=True, err=True)})


def at_terminal() -> bool:
    """Whether a person can be asked."""
    return sys.stdin.isatty()


def read_secret(file: Path, flag: str = "--secret-file") -> str:
    """The text of a file or of standard input, without the newline at its end.

    Raises:
        BadParameter: it cannot be read, is empty, or is no UTF-8.
    """
    try:
        raw = sys.stdin.buffer.read() if file == _STANDARD_INPUT else file.read_bytes()
        text = raw.rstrip(b"\r\n").decode()
    except OSError as error:
        problem = f"{file} cannot be read: {error.strerror}"
        raise typer.BadParameter(problem, param_hint=flag) from None
    except UnicodeDecodeError:
        raise typer.BadParameter("is no text in UTF-8", param_hint=flag) from None
    if not text:
        raise typer.BadParameter("holds no secret: it is empty", param_hint=flag)
    return text


def _generated(scheme: str) -> GivenSecret:
    if scheme in SCHEMES and SCHEMES[scheme].public_key:
        raise typer.BadParameter(
            f"the secret of {scheme} is the sender's public key: copy it from the sender",
            param_hint="--generate",
        )
    raw = secrets.token_bytes(_RANDOM_BYTES)
    prefixed = "whsec_" + base64.b64encode(raw).decode()
    text = prefixed if scheme == "standard-webhooks" else raw.hex()
    return GivenSecret({"secret": text}, text)
