"""What the documentation points at exists: pages and headings, make targets, commands, variables, apps."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.core.management import get_commands

from taskyard.conf import ENV_PREFIX, Settings
from taskyard.deadletters.models import DeadLetter
from taskyard.queues import DEFAULT_QUEUES

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "platform/README.md", *sorted((ROOT / "platform/docs").rglob("*.md"))]
LINK = re.compile(r"\]\((?P<target>[^)\s]+)\)")
HEADING = re.compile(r"^#+ (?P<text>.+)$", re.M)
MAKE = re.compile(r"(?:^\$ |`)make (?P<target>[a-z]+)", re.M)
COMMAND = re.compile(r"manage\.py (?P<command>[a-z_]+)")
VARIABLE = re.compile(rf"\b{ENV_PREFIX}[A-Z_]+\b")
# Stands for a name in the pages.
PLACEHOLDERS = {"TASKYARD_"}

pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and others make them."""
    headings = (match["text"].lower() for match in HEADING.finditer(page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading).strip().replace(" ", "-") for heading in headings}


@pages
def test_links_lead_somewhere(page: Path) -> None:
    for match in LINK.finditer(page.read_text(encoding="utf-8")):
        path, _, anchor = match["target"].partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{match['target']} does not exist"
        assert target.is_relative_to(ROOT)
        assert not anchor or anchor in anchors(target), f"{match['target']} is no heading"


@pages
def test_make_targets_exist(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z][a-z-]*):", makefile, re.M))

    named = {match["target"] for match in MAKE.finditer(page.read_text(encoding="utf-8"))}

    assert named <= targets


@pages
def test_commands_exist(page: Path) -> None:
    named = {match["command"] for match in COMMAND.finditer(page.read_text(encoding="utf-8"))}

    assert named <= set(get_commands())


@pages
def test_variables_are_settings(page: Path) -> None:
    known = {f"{ENV_PREFIX}{name.upper()}" for name in Settings.model_fields}

    named = set(VARIABLE.findall(page.read_text(encoding="utf-8"))) - PLACEHOLDERS

    assert named <= known


def test_the_queue_page_shows_the_queue_table() -> None:
    text = (ROOT / "platform/docs/guide/queues-and-priorities.md").read_text(encoding="utf-8")

    for spec in DEFAULT_QUEUES:
        limits = f"{spec.soft_time_limit_seconds:g} / {spec.time_limit_seconds:g} s"
        retries = f"for {spec.retry.max_age_seconds / 3600:g} h" if spec.retry.max_age_seconds else None
        row = (
            rf"^\| `{spec.name}` \| {re.escape(spec.purpose)} \| [^|]+ \| {limits} "
            rf"\| {retries or spec.retry.max_retries} \| {spec.prefetch} \| {spec.processes} \|$"
        )
        assert re.search(row, text, re.M), f"the row of {spec.name} differs: {row}"


def test_the_dead_letter_page_explains_every_reason_that_is_given() -> None:
    text = (ROOT / "platform/docs/guide/dead-letters.md").read_text(encoding="utf-8")

    explained = set(re.findall(r"^\| `([a-z_]+)` \|", text.partition("## Reasons")[2], re.M))

    assert explained == set(DeadLetter.Reason.values)


def test_the_reference_page_names_every_reference_app() -> None:
    text = (ROOT / "platform/docs/guide/reference-tasks.md").read_text(encoding="utf-8")

    apps = {f"tasks/{path.parent.name}" for path in (ROOT / "tasks").glob("*/apps.py")}

    assert apps <= set(re.findall(r"`(tasks/[a-z]+)`", text))
