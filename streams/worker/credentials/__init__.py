"""Credentials that handlers get by reference: declared in the topology, kept by a provider."""
