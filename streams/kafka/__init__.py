"""What every process needs for Kafka: its clients, their failures, offsets, sealed bodies."""
