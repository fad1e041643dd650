"""The project's settings with the probe app in place of the reference tasks: under test is the kit."""

import os

from config.settings import *  # noqa: F403
from config.settings import INSTALLED_APPS as PROJECT_APPS

# The reference tasks have tests of their own; without them a process starts sooner.
INSTALLED_APPS = [name for name in PROJECT_APPS if not name.startswith("tasks.")] + ["tests.probe_app"]
ROOT_URLCONF = "tests.probe_app.urls"
SECURE_SSL_REDIRECT = False

# Where the probe tasks write what they do.
PROBE_HISTORY = os.environ.get("PROBE_HISTORY", os.devnull)
