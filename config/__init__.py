"""The Django project. Its Celery app is imported here so that `@shared_task` finds it."""

from config.celery import app as celery_app

__all__ = ["celery_app"]
