"""Sign-in of people by OpenID Connect: authorization code flow with PKCE, no HTTP server in it.

The modules follow one sign-in: `authorization` sends the browser to the issuer, `client` redeems
the code, `id_token` decides whether the answer holds. `metadata` and `signing_keys` are what the
issuer publishes; `answers` reads it within bounds, because an issuer may hang or send without end.
"""
