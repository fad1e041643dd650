"""The Celery application of this project."""

import os

from taskyard import create_app

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

app = create_app("taskyard")
