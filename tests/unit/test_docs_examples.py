"""The Python examples of the documentation compile, import what exists, and declare acceptable tasks."""

from __future__ import annotations

import ast
import importlib
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import celery
import pytest

from taskyard.conf import build_settings

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "platform/README.md", *sorted((ROOT / "platform/docs").rglob("*.md"))]
FENCE = re.compile(r"^```python\n(?P<code>.*?)^```$", re.M | re.S)


@dataclass(frozen=True)
class Example:
    """One fenced block."""

    page: Path
    line: int
    code: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def imported_modules(self) -> Iterator[tuple[str, str | None]]:
        """Every import as (module, name), name None for a plain import."""
        for node in ast.walk(ast.parse(self.code)):
            if isinstance(node, ast.Import):
                yield from ((alias.name, None) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield from ((node.module or "", alias.name) for alias in node.names)


def _examples() -> list[Example]:
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in FENCE.finditer(text):
            # the line of the code's first character
            line = text.count("\n", 0, match.start("code")) + 1
            found.append(Example(page, line, match["code"]))
    return found


EXAMPLES = _examples()
DECLARING = [example for example in EXAMPLES if "@shared_task" in example.code]
CONFIGURING = [example for example in EXAMPLES if "TASKYARD = {" in example.code]


@pytest.fixture
def current_app_restored() -> Iterator[None]:
    before = celery.current_app._get_current_object()
    yield
    before.set_current()


def test_there_are_examples_of_each_kind() -> None:
    assert len(EXAMPLES) > 20
    assert len(DECLARING) > 5
    assert len(CONFIGURING) > 2


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_an_example_compiles(example: Example) -> None:
    compile(example.code, str(example), "exec")


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_an_example_imports_what_exists(example: Example) -> None:
    for module, name in example.imported_modules:
        if module.split(".")[0] not in ("taskyard", "tasks", "celery", "django", "structlog"):
            continue
        imported = importlib.import_module(module)
        assert name is None or hasattr(imported, name), f"{module} has no {name}"


@pytest.mark.parametrize("example", DECLARING, ids=str)
def test_an_example_declares_tasks_that_are_accepted(
    example: Example, memory_app: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def declare(*, name: str, **options: Any) -> Any:
        # beside the reference tasks, some of which have the same names
        return memory_app.task(name=f"docs.{name}", **options)

    # of this application only: tasks shared with all would outlive the test
    monkeypatch.setattr(celery, "shared_task", declare)

    exec(compile(example.code, str(example), "exec"), {"__name__": "docs"})

    memory_app.finalize()
    stated = re.findall(r'@shared_task\(\s*name="([^"]+)"', example.code)
    assert stated
    assert {f"docs.{name}" for name in stated} <= set(memory_app.tasks)


@pytest.mark.parametrize("example", CONFIGURING, ids=str)
def test_an_example_of_settings_is_valid(example: Example, tmp_path: Path) -> None:
    django_settings: dict[str, Any] = {
        "BASE_DIR": tmp_path,
        "INSTALLED_APPS": [],
        "MIDDLEWARE": [],
        "os": os,
    }

    exec(compile(example.code, str(example), "exec"), django_settings)

    build_settings(django_settings["TASKYARD"])


@pytest.mark.usefixtures("current_app_restored")
def test_the_example_of_routing_routes() -> None:
    (example,) = [example for example in EXAMPLES if "content_rules=" in example.code]
    namespace: dict[str, Any] = {}
    exec(compile(example.code, str(example), "exec"), namespace)
    route: Callable[..., dict[str, str]] = namespace["app"].router

    assert route("reports.build", (), {"tier": "enterprise"}, {}) == {"queue": "high"}
    assert route("reports.build", (), {}, {}) == {"queue": "default"}
    assert route("media.resize", (), {}, {}) == {"queue": "bulk"}
    assert route("shop.warm_cache", (), {}, {}) == {"queue": "low"}
