"""The OpenAPI document of the operator's API, and the page of it: both follow from the code.

`python -m support.api_document` writes them anew.
"""
