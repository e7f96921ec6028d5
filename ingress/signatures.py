"""`ingress.schemes` by its earlier name."""

from ingress.schemes import SignedRequest, Verified, verifier, verify

__all__ = ["SignedRequest", "Verified", "verifier", "verify"]
