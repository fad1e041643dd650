"""The operators' pages in the Django admin."""

from taskyard.operations.admin import registration

__all__ = ["registration"]
