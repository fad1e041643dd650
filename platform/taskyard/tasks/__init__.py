"""The base task and what it is made of, one concern a file."""
