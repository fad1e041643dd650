"""The dead letters as a person on call handles them, in a real browser, with real workers behind."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.integration
CARD = "4929-8888-0000-1111"
FAULTS = "/admin/deadletters/deadletter/faults/"
LETTERS = "/admin/deadletters/deadletter/"


@pytest.fixture
def fail(site, console):
    """Have tasks fail, and wait until their dead letters are there."""

    def fail(task, *calls):
        ids = [console.value("order", task=task, args=list(call)) for call in calls]
        for task_id in ids:
            site.dead_letters.wait_for(task_id=task_id)
        return ids

    return fail


def test_from_the_front_page_over_the_fault_and_the_filter_to_the_letter(visit, site, fail):
    fail("pay", ("first purchase", -5), ("second purchase", -6))
    fail("ship", ("a purchase", str(site.new_gate())))
    visitor = visit()
    page = visitor.page

    page.goto("/admin/")
    page.get_by_role("link", name=re.compile("open dead letters")).click()
    fault = page.get_by_role("row").filter(has_text="probe.pay")
    expect(fault).to_contain_text("ValueError")
    expect(fault).to_contain_text("the amount is below zero")
    fault.get_by_role("link", name="probe.pay").click()
    expect(page.locator("#letters")).to_contain_text("probe.pay")
    expect(page.locator("#letters")).not_to_contain_text("probe.ship")

    page.get_by_label("Id or text").fill("purchase")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("#letters tbody tr")).to_have_count(2)
    page.get_by_label("Id or text").fill("second purchase")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("#letters tbody tr")).to_have_count(1)
    page.get_by_role("link", name="probe.pay").click()

    expect(page.locator("h1.ty-sentence")).to_have_text(
        "probe.pay failed with an error that is not retried: ValueError: the amount is below zero"
    )
    expect(page.locator("#arguments")).to_contain_text("-6")
    page.locator("#attempts summary").first.click()
    expect(page.locator("#attempts pre")).to_contain_text('raise ValueError("the amount is below zero")')


def test_edited_and_replayed_the_run_succeeds_with_the_new_argument(visit, site, fail):
    (task_id,) = fail("pay", ("edited", -7, CARD))
    page = visit().page
    page.goto(f"{LETTERS}?search={task_id}")
    page.get_by_role("link", name="probe.pay").click()
    expect(page.locator("#arguments")).to_contain_text("****** hidden")
    page.get_by_role("link", name="Edit arguments and replay").click()

    page.get_by_label("Positional arguments").fill('["edited"]')
    page.get_by_role("button", name="Preview what changes").click()
    expect(page.locator(".errorlist")).to_contain_text("missing 1 required positional argument: 'amount'")
    page.get_by_label("Positional arguments").fill('["edited", 7, "******"]')
    page.get_by_role("button", name="Preview what changes").click()
    expect(page.locator("#changes tr.ty-changed")).to_have_text("amount-77")
    page.get_by_role("button", name="Replay with these arguments").click()

    expect(page.locator(".messagelist")).to_contain_text("Replayed with these arguments as task")
    expect(page.locator("#history")).to_contain_text("edited and replayed")
    (run,) = site.history.wait_for_end("edited")
    assert (run["amount"], run["card"]) == (7, CARD)
    assert CARD not in page.content()


def test_a_form_that_is_sent_twice_replays_once(visit, site, fail):
    gate = site.new_gate()
    (task_id,) = fail("ship", ("clicked", str(gate)))
    gate.open()
    visitor = visit()
    page, other_tab = visitor.page, visitor.context.new_page()
    for tab in (page, other_tab):
        tab.goto(f"{LETTERS}?search={task_id}")
        tab.get_by_role("link", name="probe.ship").click()

    page.get_by_role("button", name="Replay", exact=True).dblclick()
    expect(page.locator(".ty-note")).to_contain_text("Replayed by")
    other_tab.get_by_role("button", name="Replay", exact=True).click()

    (row,) = site.dead_letters.rows(task_id=task_id)
    expect(other_tab.locator(".messagelist")).to_contain_text(
        f"has been replayed already: by {row['resolved_by']}"
    )
    expect(other_tab.locator(".messagelist")).to_contain_text(f"as task {row['replay_task_id']}")
    expect(other_tab.locator("#history tbody tr")).to_have_count(2)
    (run,) = site.history.wait_for_end("clicked")
    assert run["task_id"] == row["replay_task_id"]


def test_a_bulk_replay_shows_its_sample_and_goes_on_with_the_rest(visit, site, fail):
    gate = site.new_gate()
    fail("ship", ("crate broken", str(gate)), *((f"crate {number}", str(gate)) for number in range(8)))
    gate.open()
    page = visit().page
    page.goto(f"{FAULTS}?search=crate")
    fault = page.get_by_role("row").filter(has_text="the warehouse is closed")
    fault.get_by_role("link", name="Replay all").click()

    expect(page.locator("#content")).to_contain_text("open letters: fault")
    page.get_by_label("How many first").fill("2")
    page.get_by_label("Letters a second").fill("4")
    page.get_by_role("button", name="Replay the sample").click()
    # by the page's own script: nobody loads it again
    expect(page.locator("#sample h2")).to_have_text("The sample: 2 replayed, 1 failed again, 1 not back")
    expect(page.locator("#sample")).to_contain_text("LookupError: there is no such parcel")
    assert site.history.ends("crate 1") == []

    page.get_by_role("button", name=re.compile("Go on with the rest")).click()
    expect(page.locator("[data-show=state_text]")).to_have_text(re.compile("Replaying: . letters? to go."))
    expect(page.locator("[data-show=state_text]")).to_have_text("Done; 1 of 9 failed again.")
    expect(page.locator("[data-show=replayed_text]")).to_have_text("9")
    expect(page.locator("[data-show=came_back_text]")).to_have_text("1")
    for number in range(8):
        assert len(site.history.wait_for_end(f"crate {number}")) == 1


def test_a_bulk_replay_is_stopped(visit, site, fail):
    gate = site.new_gate()
    fail("ship", *((f"stopped {number}", str(gate)) for number in range(3)))
    gate.open()
    page = visit().page
    page.goto(f"{LETTERS}?search=stopped")
    page.get_by_role("link", name="Replay all of these").click()
    page.get_by_label("How many first").fill("1")
    page.get_by_role("button", name="Replay the sample").click()
    expect(page.locator("#sample h2")).to_have_text("The sample: 1 replayed, none is back")

    page.get_by_role("button", name="Stop").click()

    expect(page.locator("[data-show=state_text]")).to_have_text("Stopped: 2 letters left alone.")
    assert len(site.dead_letters.rows(status="open", task_name="probe.ship")) >= 2


def test_it_all_works_without_javascript(visit, site, fail):
    gate = site.new_gate()
    fail("ship", *((f"plain {number}", str(gate)) for number in range(3)))
    gate.open()
    page = visit(java_script_enabled=False).page
    page.goto(f"{LETTERS}?search=plain")

    page.locator("#letters tbody input").first.check()
    page.get_by_role("button", name="Replay selected").click()
    expect(page.locator(".messagelist")).to_contain_text("Replayed 1 letter.")
    site.history.wait_for_end("plain 2")
    page.goto(f"{LETTERS}?search=plain")
    page.get_by_role("link", name="Replay all of these").click()
    page.get_by_label("How many first").fill("0")
    page.get_by_role("button", name="Replay the sample").click()

    expect(page.locator("[data-show=state_text]")).to_have_text("Done.")
    site.history.wait_for_end("plain 0")


def test_discarded_with_a_reason_after_all_boxes_were_ticked(visit, site, fail):
    fail("ship", *((f"unwanted {number}", str(site.new_gate())) for number in range(2)))
    page = visit().page
    page.goto(f"{LETTERS}?search=unwanted")

    page.get_by_label("Select all on this page").check()
    page.get_by_role("button", name="Discard selected").click()
    page.get_by_label("Reason").fill("sent by mistake")
    page.get_by_role("button", name="Discard 2 letters").click()

    expect(page.locator(".messagelist")).to_contain_text("Discarded 2 letters.")
    rows = site.dead_letters.rows(discard_reason="sent by mistake")
    assert [row["status"] for row in rows] == ["discarded"] * 2


@pytest.mark.parametrize("width", [1280, 800])
def test_pages_need_nothing_but_their_own_files_and_fit_the_window(visit, site, fail, width):
    (task_id,) = fail("pay", (f"long {'w' * 300}", -1, CARD))
    (letter,) = site.dead_letters.rows(task_id=task_id)
    visitor = visit(width=width)
    visitor.enforce_policy("default-src 'self'")
    one = f"{LETTERS}{letter['id']}/"

    for path in (
        "/admin/",
        LETTERS,
        f"{LETTERS}?status=all",
        FAULTS,
        f"{one}change/",
        f"{one}edit/",
        f"{one}discard/",
        f"{LETTERS}replay-all/",
        f"{LETTERS}discard-all/",
        "/admin/deadletters/bulkreplay/",
    ):
        visitor.page.goto(path)
        assert visitor.overflow <= 0, path
