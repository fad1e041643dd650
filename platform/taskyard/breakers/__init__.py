"""Circuit breakers around what tasks call: one state for the whole fleet, on Redis or Valkey."""

from taskyard.breakers.definition import PROGRAMMING_ERRORS, Breaker
from taskyard.breakers.state import BreakerState
from taskyard.breakers.store import overview

__all__ = ["PROGRAMMING_ERRORS", "Breaker", "BreakerState", "overview"]
