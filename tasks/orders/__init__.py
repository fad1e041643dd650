"""Guaranteed: an order is charged exactly once, or a person is told.

Uses `tasks.mail.delivery` for its receipts.
"""
