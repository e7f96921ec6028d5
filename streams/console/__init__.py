"""The console: pages over the API, in the operator's process, at `/console`.

A page asks the API for JSON with the rights of whoever looks, and a button sends one call of the
API. So what a page shows and does is declared once, at the API's routes, and the console has no
rules of its own. A screen is a folder with `page.py` and its templates, and a line in `screens.py`.
"""
