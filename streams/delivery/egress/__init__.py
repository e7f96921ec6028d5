"""HTTP requests to customers' endpoints: guarded, bounded, repeated only on a new connection."""
