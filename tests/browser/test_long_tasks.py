"""A long task watched and cancelled in a real browser."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.integration
LIST = "/admin/taskyard/trackedtask/"


def test_its_progress_is_shown_and_it_is_cancelled(visit, site, console):
    task_id = console.value("order", task="pack", args=["parcel"])
    visitor = visit(width=800)
    page = visitor.page
    row = page.locator("#tracked-tasks tbody tr").filter(has_text=task_id)

    def look() -> None:
        page.goto(LIST)

    def look_until(text: str) -> None:
        """A page that does not refresh itself: look again until it says so."""
        for _ in range(100):
            look()
            if row.count() and text in row.inner_text():
                return
            page.wait_for_timeout(100)
        raise AssertionError(f"the row never said {text!r}")

    look_until("340 of 1,000, packing parcel")
    expect(row).to_contain_text("running")
    expect(row.locator("progress")).to_have_attribute("value", "34")
    assert visitor.overflow <= 0
    row.get_by_role("link", name="Cancel").click()
    page.get_by_label("Reason").fill("ordered twice")
    page.get_by_role("button", name="Cancel the task").click()

    expect(page.locator(".messagelist")).to_contain_text(
        f"The task probe.pack {task_id} is cancelled: its run has been told, and ends soon."
    )
    look_until("cancelled\nby")
    expect(row).to_contain_text(": ordered twice")
    expect(row.get_by_role("link", name="Cancel")).to_have_count(0)
    assert site.history.ends("parcel") == []
