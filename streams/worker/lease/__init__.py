"""A worker's leases and free slots, which heartbeats report to the dispatcher."""
