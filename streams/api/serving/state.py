"""The key under which the HTTP application has the state of the operator."""

from __future__ import annotations

from aiohttp import web

from streams.api.operator_state import AppState

STATE: web.AppKey[AppState] = web.AppKey("state", AppState)
