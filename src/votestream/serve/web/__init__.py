"""The service over HTTP: routes, what they check, and what they send."""
