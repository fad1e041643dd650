"""The tests of Kombu and Celery, from the source distributions of exactly the installed versions."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path

# The package itself stays away: its tests are to import the installed one.
WANTED = ("t/", "setup.cfg", "pyproject.toml")


def fetch_tests(distribution: str, cache: Path) -> Path:
    """Return the directory with the distribution's tests; download and unpack them once.

    Raises:
        CalledProcessError: pip could not get the source distribution.
    """
    name = f"{distribution}-{version(distribution)}"
    directory = cache / name
    if not (directory / "t").is_dir():
        _unpack(_download(distribution, name, cache), name, cache)
    return directory


def _download(distribution: str, name: str, cache: Path) -> Path:
    archive = cache / f"{name}.tar.gz"
    if not archive.exists():
        requirement = f"{distribution}=={version(distribution)}"
        options = ("--no-deps", "--no-binary", ":all:", "--quiet", "--dest", str(cache))
        subprocess.run([sys.executable, "-m", "pip", "download", *options, requirement], check=True)
    return archive


def _unpack(archive: Path, name: str, cache: Path) -> None:
    with tarfile.open(archive) as tar:
        wanted = [
            member for member in tar.getmembers() if member.name.removeprefix(f"{name}/").startswith(WANTED)
        ]
        tar.extractall(cache, members=wanted, filter="data")
