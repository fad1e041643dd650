"""What all tests share: a private directory for all that is written, development settings, no broker."""

import os
import tempfile

VAR_DIR = tempfile.mkdtemp(prefix="taskyard-tests-")
for name in list(os.environ):
    if name.startswith(("TASKYARD_", "DJANGO_", "DATABASE_URL", "CELERY_")):
        del os.environ[name]
os.environ |= {
    "DJANGO_DEBUG": "1",
    "DJANGO_SETTINGS_MODULE": "config.settings",
    "TASKYARD_VAR_DIR": VAR_DIR,
    # Nothing listens there: a test that needs a broker starts one and says so.
    "TASKYARD_BROKER_URL": "redis://127.0.0.1:1/0",
    "TASKYARD_STATE_URL": "redis://127.0.0.1:1/0",
}
