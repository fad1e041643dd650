"""The conventions as Django system checks; the ids are those of the conventions page (TY001...)."""

from taskyard.checks.breakers import check_breakers_have_a_store
from taskyard.checks.marked_arguments import check_encryption_keys
from taskyard.checks.production import check_development_values
from taskyard.checks.task_names import check_explicit_names

__all__ = [
    "check_breakers_have_a_store",
    "check_development_values",
    "check_encryption_keys",
    "check_explicit_names",
]
