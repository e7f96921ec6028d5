"""What the owner of partitions does for the workers that dial it: it listens at `/v1/link`."""
