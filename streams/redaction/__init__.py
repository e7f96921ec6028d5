"""Takes secrets out of what leaves a worker: values of credentials, and what rules find.

Pure: text and JSON in, text and JSON out.
"""
