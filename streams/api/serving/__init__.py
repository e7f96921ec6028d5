"""What all calls share of HTTP: middlewares, lists, bodies of requests and of answers."""
