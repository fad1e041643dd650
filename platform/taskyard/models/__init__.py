"""The kit's own tables, beside those of the dead letters."""

from taskyard.models.state import Claim, Effect, Register
from taskyard.models.tracking import TrackedTask

__all__ = ["Claim", "Effect", "Register", "TrackedTask"]
