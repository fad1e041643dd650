"""The kit's Celery app for torture and benchmark, made as a user's project makes it."""

from taskyard import create_app
from tests.bench.probe import record

app = create_app("bench")
record.connect()
