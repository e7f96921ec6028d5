"""An example of each body, by the name of the model that validates it."""

from __future__ import annotations

from typing import Any

EXAMPLES: dict[str, dict[str, Any]] = {}
