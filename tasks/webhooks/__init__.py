"""Outgoing webhooks: signed HTTP calls with retries, safe for the receiver to get twice."""
