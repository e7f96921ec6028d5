"""What a sealed text belongs to, as a worker names it in `Seal` and `Unseal`.

The owner makes of it, and of what it knows of the job, the place to which the text is bound.
"""

from __future__ import annotations

from dataclasses import dataclass

_APPROVAL, _ARTIFACT = "approval", "artifact"


@dataclass(frozen=True, slots=True)
class ApprovalPlace:
    """What the job's approval under a key asks about, or what people gave instead."""

    key: str


@dataclass(frozen=True, slots=True)
class ArtifactPlace:
    """The key of an artifact; `of` is the job that saved it."""

    artifact: str
    of: str


Place = ApprovalPlace | ArtifactPlace


def written(place: Place) -> str:
    """Return a place as text: `approval KEY`, or `artifact ID JOB`."""
    if isinstance(place, ApprovalPlace):
        return f"{_APPROVAL} {place.key}"
    return f"{_ARTIFACT} {place.artifact} {place.of}"


def read(text: str) -> Place | None:
    """Return the place that a text names; None if it names none."""
    kind, _, rest = text.partition(" ")
    if kind == _APPROVAL and rest:
        return ApprovalPlace(rest)
    artifact, _, of = rest.partition(" ")
    if kind == _ARTIFACT and artifact and of:
        return ArtifactPlace(artifact, of)
    return None
