"""Tidegate: webhooks become jobs whose effects happen once.

These names are the public API; everything else may change between releases.
"""

from streams.errors import PermanentError, RetryAfter, TransientError
from streams.worker.app import App, Retry
from streams.worker.handler.context import Context

__all__ = ["App", "Context", "PermanentError", "Retry", "RetryAfter", "TransientError"]
