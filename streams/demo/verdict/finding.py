"""What the check of one guarantee found."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Finding:
    """How many things were checked, and a sentence for each violation."""

    checked: int = 0
    violations: list[str] = field(default_factory=list)

    def check(self, holds: bool, violation: str) -> None:
        """Count one more thing checked."""
        self.checked += 1
        if not holds:
            self.violations.append(violation)
