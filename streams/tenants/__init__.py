"""Tenants, their sources and their keys, as the topic `tenants` carries them."""
