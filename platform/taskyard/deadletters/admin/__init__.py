"""The dead letters in the admin, for whoever is on call."""

from taskyard.deadletters.admin.registration import BulkReplayAdmin, DeadLetterAdmin

__all__ = ["BulkReplayAdmin", "DeadLetterAdmin"]
