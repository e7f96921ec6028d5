"""What a run says while it runs: tokens, log lines, and the details of its heartbeats."""
