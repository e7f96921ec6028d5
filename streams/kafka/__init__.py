"""What every process needs of Kafka: its clients, their failures, offsets, sealed bodies."""
