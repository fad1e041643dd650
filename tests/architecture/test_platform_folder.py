"""`platform/` is a source root, never a package: as one it would shadow Python's own module of that name."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLATFORM = ROOT / "platform"


def test_it_holds_the_kit_its_documentation_and_nothing_else():
    found = {path.name for path in PLATFORM.iterdir() if path.suffix != ".md"}

    assert found - {"docs"} == {"taskyard"}


def test_the_documentation_holds_no_code():
    assert [path for path in (PLATFORM / "docs").rglob("*") if path.suffix in (".py", ".pyi", ".so")] == []


@pytest.mark.parametrize("path", [[ROOT], [PLATFORM], [PLATFORM, ROOT]], ids=["root", "platform", "both"])
def test_import_platform_is_the_standard_librarys(path):
    entries = [str(entry) for entry in path]
    code = f"import sys; sys.path[:0] = {entries}; import platform; print(platform.__file__)"

    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=30, check=True
    )

    assert Path(done.stdout.strip()).parent == Path(sysconfig.get_path("stdlib"))


class TestTheGuardOfMake:
    """pytest itself does not start with a package there, so the Makefile guards it too."""

    @pytest.fixture
    def checkout(self, tmp_path):
        (tmp_path / "platform" / "taskyard").mkdir(parents=True)
        (tmp_path / "platform" / "docs").mkdir()
        (tmp_path / "platform" / "README.md").touch()
        shutil.copy(ROOT / "Makefile", tmp_path)
        return tmp_path

    def guard(self, checkout):
        return subprocess.run(["make", "guard"], cwd=checkout, capture_output=True, text=True, timeout=30)

    def test_it_lets_a_good_folder_pass(self, checkout):
        done = self.guard(checkout)

        assert done.returncode == 0, done.stderr

    @pytest.mark.parametrize("name", ["__init__.py", "types.py", "utils"])
    def test_it_refuses_anything_else_and_names_it(self, checkout, name):
        (checkout / "platform" / name).touch()

        done = self.guard(checkout)

        assert done.returncode != 0
        assert f"platform/{name} must not exist" in done.stderr
