"""A Django app of tasks that do what tasks should not do, and record it."""
