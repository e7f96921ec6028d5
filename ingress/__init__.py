"""Webhooks in: verified, bounded, and durable before they are answered."""
