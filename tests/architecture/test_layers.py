"""Imports go one way: config, tasks, taskyard; inside the kit, Django apps use the core, not the reverse."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[2]
KIT = ROOT / "platform" / "taskyard"
CORE = ("tasks", "transport", "observe", "brokers")
# Packages of the kit that are more than the core: Django apps, commands, and what starts processes.
USERS_OF_THE_CORE = ("checks", "deadletters", "doctor", "launch", "management", "operations", "worker")
# The one process that the core's folder of brokers knows how to start.
EXCEPTION = "taskyard.brokers.embedded"


@pytest.fixture(scope="module")
def graph():
    return grimp.build_graph("taskyard", cache_dir=None)


def test_the_contracts_of_pyproject_hold(tmp_path):
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--cache-dir", tmp_path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert done.returncode == 0, done.stdout
    assert "2 kept, 0 broken" in done.stdout


def test_the_contract_inside_the_kit_names_every_module_there_is():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    (inside,) = [contract for contract in contracts if contract.get("containers") == ["taskyard"]]
    named = {name.strip(" ()") for layer in inside["layers"] for name in layer.split("|")}

    there = {path.stem for path in KIT.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}

    assert inside["exhaustive"] is True
    assert there - {"__init__"} <= named
    assert inside["ignore_imports"] == [f"{EXCEPTION} -> taskyard.launch.*"]


@pytest.mark.parametrize("core", CORE)
def test_the_core_imports_none_of_what_is_built_on_it(graph, core):
    modules = {f"taskyard.{core}"} | graph.find_descendants(f"taskyard.{core}")
    forbidden = tuple(f"taskyard.{name}" for name in USERS_OF_THE_CORE)

    found = {
        (importer, imported)
        for importer in modules - {EXCEPTION}
        for imported in graph.find_modules_directly_imported_by(importer)
        if imported.startswith(forbidden)
    }

    assert len(modules) >= 2
    assert found == set()


def test_nothing_of_the_core_needs_the_exception(graph):
    importers = graph.find_modules_that_directly_import(EXCEPTION)

    assert importers
    assert all(name.split(".")[1] in USERS_OF_THE_CORE for name in importers), importers


def test_every_django_app_of_the_kit_is_above_the_core():
    apps = {path.parent.name for path in KIT.glob("*/apps.py")} | {
        path.parent.name for path in KIT.glob("*/models*")
    }

    assert apps
    assert apps <= set(USERS_OF_THE_CORE)
