"""Restate's server and a service endpoint behind the front."""
