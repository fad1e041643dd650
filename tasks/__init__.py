"""The reference tasks: one Django app per pattern, made to be copied."""
