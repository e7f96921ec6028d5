"""Sign-in of people: the session of whoever calls, and its beginning and end."""
