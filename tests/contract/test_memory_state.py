"""The store that unit tests use keeps the contract of the real ones: what they show holds for those."""

from __future__ import annotations

import pytest

from taskyard.clock import SYSTEM_CLOCK
from tests.contract.test_state_claims import *  # noqa: F403
from tests.contract.test_state_keys import *  # noqa: F403
from tests.contract.test_state_registers import *  # noqa: F403
from tests.support.memory_state import MemoryStore


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(SYSTEM_CLOCK)
