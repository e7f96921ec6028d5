"""The operator: a read model folded from the topics, and the API over it."""

from typing import Final

STAGE: Final = "operator"
