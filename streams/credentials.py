"""What an application imports to write a provider of credentials; see docs/credentials.md.

These names are public, as those of `streams` are.
"""

from streams.worker.credentials.provider import Credential, Provider, Scope
from streams.worker.credentials.secret import Secret

__all__ = ["Credential", "Provider", "Scope", "Secret"]
