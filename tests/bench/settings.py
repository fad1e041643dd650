"""Django settings of the workers of torture and benchmark: the kit, its dead letters, the probe tasks."""

import os
from pathlib import Path

import dj_database_url

from taskyard.conf import settings_from_environ

VAR_DIR = Path(os.environ["TASKYARD_VAR_DIR"])
SECRET_KEY = "not-a-secret: nothing is signed here"
DEBUG = False
USE_TZ = True
TIME_ZONE = "UTC"
ALLOWED_HOSTS = ["127.0.0.1"]
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "taskyard",
    "taskyard.deadletters",
    "tests.bench.probe",
]
DATABASES = {"default": dj_database_url.parse(f"sqlite:///{VAR_DIR / 'db.sqlite3'}", conn_max_age=60)}
DATABASES["default"]["OPTIONS"] = {
    "timeout": 20,
    "transaction_mode": "IMMEDIATE",
    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
LOGGING_CONFIG = None
TASKYARD = {"VAR_DIR": VAR_DIR, **settings_from_environ(os.environ)}
