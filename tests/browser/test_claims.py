"""The lock of a singleton looked at and released in a real browser."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.integration


def test_a_held_lock_is_shown_and_released(visit, site):
    gate = site.new_gate()
    task_id = site.tasks["probe.one_at_a_time"].delay("north", 1, str(gate)).id
    site.history.wait_for_start("north")
    visitor = visit()
    page = visitor.page
    row = page.locator("#claims tbody tr")

    page.goto("/admin/")
    page.get_by_role("link", name="Claims").first.click()
    expect(row).to_have_count(1)
    expect(row).to_contain_text("probe.one_at_a_time")
    expect(row).to_contain_text("north")
    expect(row).to_contain_text(task_id)
    row.get_by_role("link", name="Release").click()
    expect(page.locator("#content")).to_contain_text(f"is held by probe.one_at_a_time[{task_id}]")
    expect(page.locator("#content")).to_contain_text("another one may run beside it")
    page.get_by_role("button", name="Release it").click()

    expect(page.locator(".messagelist")).to_contain_text("Released: singleton:probe.one_at_a_time:north")
    expect(page.locator("#content")).to_contain_text("Nothing is held.")
    gate.open()
    (end,) = site.history.wait_for_end("north")
    assert end["task_id"] == task_id
