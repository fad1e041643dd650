"""A Django app with the tasks that torture and benchmark run."""
