"""One concern a file: small ones by habit, and none above the ceiling."""

from __future__ import annotations

import statistics

from tests.support.repository import ROOT, tracked_files

CEILING = 400
USUAL = 140


def sizes(*parts: str) -> dict[str, int]:
    """Return lines by file, of the Python files whose path begins so; generated migrations apart."""
    found = {}
    for path in tracked_files():
        name = path.relative_to(ROOT).as_posix()
        if path.suffix == ".py" and "/migrations/" not in name and name.startswith(parts):
            found[name] = len(path.read_text(encoding="utf-8").splitlines())
    return found


def test_no_python_file_is_longer_than_the_ceiling():
    all_sizes = sizes("")

    assert len(all_sizes) > 100
    assert {name: lines for name, lines in all_sizes.items() if lines > CEILING} == {}


def test_most_files_of_the_kit_and_the_tasks_are_small():
    lines = [count for count in sizes("platform/", "tasks/", "config/").values() if count]

    assert len(lines) > 50
    assert statistics.median(lines) <= USUAL


def test_packages_only_re_export():
    inits = {
        name: lines for name, lines in sizes("platform/", "tasks/").items() if name.endswith("__init__.py")
    }

    assert inits
    assert {name: lines for name, lines in inits.items() if lines > 40} == {}
