"""What all tests share: a private directory for all that is written, development settings, no broker."""

import atexit
import os
import shutil
import tempfile
from collections.abc import Generator

import pytest

from tests.support.servers import MissingServiceError

VAR_DIR = tempfile.mkdtemp(prefix="taskyard-tests-")
atexit.register(shutil.rmtree, VAR_DIR, ignore_errors=True)
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

# pytest-django would load settings named in pyproject.toml before this file has set the environment, and the
# tests would write to the checkout's own var/. So they are loaded here.
from django.conf import settings  # noqa: E402 - after the environment

assert settings.DEBUG


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    """Leave out a test whose server is not installed on a laptop; in continuous integration it fails."""
    try:
        return (yield)
    except MissingServiceError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"{error} (an error with CI=true)")


@pytest.fixture(autouse=True, scope="session")
def _the_project_s_app_is_current() -> Generator[None, None, None]:
    """A stock application that a test makes must not become the one that `@shared_task` finds."""
    from celery import current_app

    yield
    assert current_app.main == "taskyard", "a test has made another application the current one"
