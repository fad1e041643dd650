"""Ordered: one user's activities are applied one at a time and in order; other users go on."""
