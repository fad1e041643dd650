"""The dead letter store: every task that will not run again by itself, kept where people see it."""
