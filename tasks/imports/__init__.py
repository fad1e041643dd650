"""A pipeline: fetch, validate, then import in parallel chunks, and one summary at the end."""
