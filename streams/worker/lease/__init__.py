"""What a worker holds: leases and free slots, told to the dispatcher by heartbeats."""
