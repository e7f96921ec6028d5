"""The part of a handler's context that keeps files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streams.worker.handler.artifacts import Artifacts


class Saving:
    """The part of a handler's context that keeps files."""

    def __init__(self, artifacts: Artifacts) -> None:
        self._artifacts = artifacts

    async def save(
        self, content: bytes, *, name: str, content_type: str = "application/octet-stream"
    ) -> dict[str, Any]:
        """Keep up to 64 MiB with the job, sealed; returns a reference, which is small JSON.

        Return the reference, or keep it in a step: another run, another job of the tenant, and the
        API read the content by it. `name` is for people, and each is saved once in a run.

        Raises:
            PermanentError: no place for artifacts is set, it is too large, or the tenant is erased.
            TransientError: the store does not answer.
        """
        return await self._artifacts.save(content, name, content_type)

    async def load(self, reference: object) -> bytes:
        """The content of an artifact of this tenant, by what `save` returned.

        Raises:
            PermanentError: it is gone with its job, damaged, of another tenant, or no reference.
            TransientError: the store does not answer.
        """
        return await self._artifacts.load(reference)
