"""A project that does not install Django's admin uses the kit all the same."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
from django.conf import settings
settings.configure(
    SECRET_KEY="only-for-this-test",
    INSTALLED_APPS=[
        "django.contrib.contenttypes", "django.contrib.auth",
        "taskyard", "taskyard.deadletters", "taskyard.operations",
    ],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True}],
    TASKYARD={},
)
import django
django.setup()
from django.core.management import call_command
call_command("check")
"""


def test_the_checks_import_every_template_tag_and_need_no_admin():
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DJANGO_")}

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=60
    )

    assert done.returncode == 0, done.stderr
    assert "no issues" in done.stdout
