"""Scheduled: a nightly report that is the same however often it is built, and expired sessions.

Reports on `tasks.orders`.
"""
