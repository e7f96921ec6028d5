"""One machine's pipeline: every stage as a child process under one supervisor."""
