"""HTTP requests to customers' endpoints: guarded, bounded, and never repeated unasked."""
