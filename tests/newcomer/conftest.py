"""A clean clone and an empty home: what somebody has who has just found the project."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.newcomer import Newcomer
from tests.support.ports import free_port

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def newcomer(clean_clone: Newcomer) -> Iterator[Newcomer]:
    """The newcomer, with nothing running and no data of earlier tests."""
    clean_clone.forget()
    yield clean_clone
    clean_clone.stop_everything()


@pytest.fixture(scope="session")
def clean_clone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Newcomer]:
    """Somebody in a clean clone of the last commit, who has Python and make, and an environment made once."""
    clone = tmp_path_factory.mktemp("newcomer") / "taskyard"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    home = tmp_path_factory.mktemp("home")
    keep = (
        "PATH",
        "LANG",
        "PIP_INDEX_URL",
        "PIP_EXTRA_INDEX_URL",
        "PIP_TRUSTED_HOST",
        "PIP_CERT",
        "SSL_CERT_FILE",
    )
    environment = {name: os.environ[name] for name in keep if name in os.environ}
    environment |= {
        "HOME": str(home),
        "TASKYARD_WEB_PORT": str(free_port()),
        "TASKYARD_FLOWER_PORT": str(free_port()),
        "TASKYARD_EMBEDDED_PORT": str(free_port()),
    }
    person = Newcomer(clone, environment)
    yield person
    person.stop_everything()
