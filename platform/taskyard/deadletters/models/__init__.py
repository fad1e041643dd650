"""The tables of the dead letter store."""

from taskyard.deadletters.models.action import DeadLetterAction
from taskyard.deadletters.models.bulk_replay import BulkReplay
from taskyard.deadletters.models.fault_count import FaultCount
from taskyard.deadletters.models.letter import DeadLetter

__all__ = ["BulkReplay", "DeadLetter", "DeadLetterAction", "FaultCount"]
