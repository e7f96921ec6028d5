"""The API as an OpenAPI document, which `make api` writes from the declarations and the code."""
