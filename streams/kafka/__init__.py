"""Kafka for every process: its clients, their failures, offsets, sealed bodies."""
