"""What tests share: worlds to test in, processes, faults, and verdicts."""
