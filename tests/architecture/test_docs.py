"""What the documentation names exists, and no file of the repository names a machine or a registry."""

from __future__ import annotations

import importlib
import re

import pytest

from tests.support.repository import ROOT, text_of, tracked_files

PAGES = [path for path in tracked_files() if path.suffix == ".md"]
FILE_NAMES = {path.name for path in tracked_files()}
SPAN = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"(?:[\w.*-]+/)+[\w.*-]*|[\w-]+\.(?:py|toml|txt|md)|Makefile")
DOTTED = re.compile(r"taskyard(?:\.\w+)+")
CHECK_ID = re.compile(r"taskyard\.TY\d+")
# Where a path in a page may begin.
BASES = (ROOT, ROOT / "platform", ROOT / "platform" / "taskyard")
# Files of the reader's project, and what exists only while the platform runs.
OF_THE_READER = ("shop/", "mail/", "var/", "dist/", ".venv/", "settings.py", "celery.py", "tasks.py")
MACHINE_PATH = re.compile(r"(?<![\w./-])/(?:" + "work" + "|" + "root" + r")/")
# in two parts, so that this file does not name them
REGISTRY_HOSTS = (
    ("pypi.", "org"),
    ("python", "hosted"),
    ("registry.", "npmjs"),
    ("ghcr.", "io"),
    ("quay.", "io"),
)
REGISTRIES = re.compile("|".join(re.escape("".join(parts)) for parts in REGISTRY_HOSTS), re.I)


def spans(page):
    return SPAN.findall(page.read_text(encoding="utf-8"))


def named_paths(page):
    names = {span for span in spans(page) if PATH.fullmatch(span)}
    return sorted(name for name in names if not name.startswith(OF_THE_READER))


def exists(name):
    if "/" not in name:
        return name in FILE_NAMES
    return any(next(iter(base.glob(name)), None) is not None for base in BASES)


def resolve(dotted):
    """Import as much of a dotted name as is a module, and look up the rest."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for name in parts[length:]:
            found = getattr(found, name)
        return found
    raise AssertionError(f"{dotted} does not exist")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_paths_that_a_page_names_exist(page, record_property):
    names = named_paths(page)
    record_property("checked", names)

    assert [name for name in names if not exists(name)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_names_of_the_kit_that_a_page_names_exist(page, record_property):
    names = sorted({span for span in spans(page) if DOTTED.fullmatch(span) and not CHECK_ID.fullmatch(span)})
    record_property("checked", names)

    for name in names:
        resolve(name)


def test_the_pages_name_something():
    """A change of the pages' form would otherwise empty the tests above without a word."""
    paths = {name for page in PAGES for name in named_paths(page)}

    assert ROOT / "README.md" in PAGES
    assert len(paths) >= 10, paths
    assert not exists("config/nowhere.py")
    with pytest.raises(AttributeError):
        resolve("taskyard.conf.Nothing")


def offences(pattern):
    found = []
    for path in tracked_files():
        for number, line in enumerate((text_of(path) or "").splitlines(), 1):
            if pattern.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}")
    return found


@pytest.mark.parametrize("pattern", [MACHINE_PATH, REGISTRIES], ids=["paths", "registries"])
def test_no_file_names_a_machine_or_a_registry(pattern):
    assert offences(pattern) == []


def test_such_names_would_be_found():
    assert MACHINE_PATH.search("see /" + "work/main")
    assert MACHINE_PATH.search('"/' + 'root/x"')
    assert not MACHINE_PATH.search("https://example.com/work/x and network/x")
    assert REGISTRIES.search("https://PyPI." + "org/simple")
    assert len(tracked_files()) > 150
