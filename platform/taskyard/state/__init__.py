"""Shared state beside the broker: who may run what, what is done already, what is the latest."""

from taskyard.state.interface import Attempt, Claim, StateStore, StateUnavailableError
from taskyard.state.stores import state_store

__all__ = ["Attempt", "Claim", "StateStore", "StateUnavailableError", "state_store"]
