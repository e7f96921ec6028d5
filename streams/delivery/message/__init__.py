"""What an endpoint receives: a message, rendered in the endpoint's format and signed."""
