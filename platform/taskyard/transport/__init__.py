"""Taskyard's Kombu transports."""
