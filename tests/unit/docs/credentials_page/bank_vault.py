from pydantic import SecretStr

from streams import PermanentError
from streams.credentials import Credential, Scope


class BankVault:
    """Rents each value out for five minutes; here they lie in a dict."""

    def __init__(self, values: dict[str, str]) -> None:
        self._values = values

    async def get(self, reference: str, scope: Scope) -> Credential:
        value = self._values.get(f"{scope.tenant_id}/{reference}")
        if value is None:
            raise PermanentError(f"{reference} was revoked")
        return Credential(SecretStr(value), seconds=300)
