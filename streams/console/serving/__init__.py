"""How pages are served: sign-in, calls of the API in this process, forms, templates, files."""
