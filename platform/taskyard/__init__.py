"""The Celery stack for Django, preconfigured. These are the public names; everything else may change."""

from taskyard.app import create_app
from taskyard.breakers.definition import Breaker
from taskyard.effects import effect_once
from taskyard.outcomes import Cancel, Snooze
from taskyard.priority import Priority
from taskyard.queues import QueueSpec
from taskyard.retry import Exponential, Fixed, Never
from taskyard.routing import NameRule, QueueRouter
from taskyard.tasks.base import Task
from taskyard.tasks.breaking import breaker
from taskyard.tasks.cancellation import CancelOutcome, cancel
from taskyard.tasks.idempotent_task import IdempotentTask
from taskyard.tasks.long_task import LongTask
from taskyard.tasks.singleton_task import SingletonTask

__all__ = [
    "Breaker",
    "Cancel",
    "CancelOutcome",
    "Exponential",
    "Fixed",
    "IdempotentTask",
    "LongTask",
    "NameRule",
    "Never",
    "Priority",
    "QueueRouter",
    "QueueSpec",
    "SingletonTask",
    "Snooze",
    "Task",
    "breaker",
    "cancel",
    "create_app",
    "effect_once",
]
__version__ = "0.1.0"
