"""The check of a job's input by the JSON schema that its application announced."""
