"""The Celery stack for Django, preconfigured. These are the public names; everything else may change."""

from taskyard.app import create_app
from taskyard.outcomes import Cancel, Snooze
from taskyard.priority import Priority
from taskyard.queues import QueueSpec
from taskyard.retry import Exponential, Fixed, Never
from taskyard.routing import NameRule, QueueRouter
from taskyard.tasks.base import Task

__all__ = [
    "Cancel",
    "Exponential",
    "Fixed",
    "NameRule",
    "Never",
    "Priority",
    "QueueRouter",
    "QueueSpec",
    "Snooze",
    "Task",
    "create_app",
]
__version__ = "0.1.0"
