"""Shared state beside the broker: who may run what, what is done already, what is the latest."""

from taskyard.state.holders import describe_holder, new_owner
from taskyard.state.interface import Attempt, Claim, StateStore, StateUnavailableError
from taskyard.state.keeper import Lease, held
from taskyard.state.stores import state_store

__all__ = [
    "Attempt",
    "Claim",
    "Lease",
    "StateStore",
    "StateUnavailableError",
    "describe_holder",
    "held",
    "new_owner",
    "state_store",
]
