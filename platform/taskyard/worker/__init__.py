"""The worker side: what Taskyard changes in Celery's consumer, requests and processes."""
