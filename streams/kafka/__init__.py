"""Kafka for every process: clients and their failures, tails of topics, offsets, sealed bodies."""
