"""The providers that ship with Tidegate: one row each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from streams.errors import ConfigError
from streams.settings import Settings
from streams.topology.credentials import CredentialDeclaration
from streams.worker.credentials.environment import Environment
from streams.worker.credentials.file import Files
from streams.worker.credentials.http import HttpKeyValue
from streams.worker.credentials.provider import Provider

_REMEDIES = {
    "http": "set TIDEGATE_CREDENTIALS_URL and TIDEGATE_CREDENTIALS_TOKEN_FILE",
}


def shipped(settings: Settings | None = None) -> dict[str, Provider]:
    """The shipped providers by their names; `http` is there if the settings name its store."""
    found: dict[str, Provider] = {"environment": Environment(), "file": Files()}
    url = settings and settings.credentials_url
    token_file = settings and settings.credentials_token_file
    if url and token_file:
        found["http"] = HttpKeyValue(url, token_file)
    return found


def check_providers(
    declared: Iterable[CredentialDeclaration],
    providers: Mapping[str, Provider],
    job_types: Iterable[str],
) -> None:
    """Check that the worker has the provider of each credential that its job types may ask for.

    Raises:
        ConfigError: it has none of that name; the message says how it gets one.
    """
    types = list(job_types)
    for each in declared:
        if each.provider not in providers and any(map(each.is_for_type, types)):
            remedy = _REMEDIES.get(
                each.provider, f"add it to the application: app.provider({each.provider!r}, ...)"
            )
            known = ", ".join(sorted(providers))
            raise ConfigError(
                f"credential {each.name!r}: this worker has no provider {each.provider!r}, only "
                f"{known}: {remedy}"
            )
