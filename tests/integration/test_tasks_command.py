"""`manage.py tasks show|cancel`, as an operator uses it."""

from __future__ import annotations

import json

import pytest

from tests.support.tracked_rows import tracked_row, wait_for_row

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def site(valkey, shared_site):
    return shared_site(valkey.url)


@pytest.fixture(scope="module", autouse=True)
def worker(site):
    return site.start_worker(processes=1, queue="default")


@pytest.fixture(scope="module")
def console(site):
    return site.start_console()


@pytest.fixture
def tasks(console):
    """Run the command and return what it writes."""

    def run(*words):
        reply = console.run("manage", words=["tasks", *words])
        assert reply.error == (), reply.message
        return reply.value

    return run


def shown(text):
    return {line[:12].strip(): line[13:] for line in text.splitlines()}


def test_a_waiting_task_is_shown_cancelled_and_shown_again(site, tasks):
    result = site.tasks["probe.part"].apply_async(("waiting", ""), queue="bulk")
    assert shown(tasks("show", result.id)) == {
        "task": f"probe.part {result.id}",
        "queue": "bulk",
        "message": "waits in its queue",
    }

    text = tasks("cancel", result.id, "--why", "wrong file", "--who", "ann")

    assert text == f"The task probe.part {result.id} is cancelled: it will not start.\n"
    after = shown(tasks("show", result.id))
    assert after["state"] == "waiting"
    assert after["cancelled"].endswith(" by ann: wrong file")
    row = tracked_row(site, result.id)
    assert (row["task_name"], row["cancelled_by"], row["cancel_reason"]) == (
        "probe.part",
        "ann",
        "wrong file",
    )


def test_a_running_long_task_is_shown(site, tasks):
    gate = site.new_gate()
    gate.path.with_name(f"{gate.path.name}.0").touch()
    result = site.tasks["probe.long"].delay("running", str(gate))
    wait_for_row(site, result.id, lambda row: row["note"] == "step 1", what="it is at step 1")

    report = json.loads(tasks("show", result.id, "--json"))

    assert report["task_name"] == "probe.long"
    assert report["message"].startswith("with the worker ")
    assert (report["state"], report["progress"]) == ("running", "1 of 10, step 1")
    assert (report["checkpoint"], report["result_state"], report["cancelled"]) == ("1", "PROGRESS", "")
    gate.open()
    result.get(timeout=20)
    after = shown(tasks("show", result.id))
    assert (after["state"], after["result"]) == ("succeeded", "SUCCESS")
    assert "message" not in after


def test_for_machines_the_outcome_is_whole(site, tasks):
    result = site.tasks["probe.record"].apply_async(("for machines",), countdown=3600)

    outcome = json.loads(tasks("cancel", result.id, "--json"))

    assert (outcome["state"], outcome["queue"], outcome["is_first"]) == ("waiting", "default", True)
    assert (outcome["is_confirmed"], outcome["is_recorded"], outcome["reason"]) == (True, True, "")
    assert outcome["by"]


def test_a_task_that_nobody_knows(console, tasks):
    reply = console.run("manage", words=["tasks", "show", "no-such-task"])

    assert reply.error[0] == "CommandError"
    assert "Nothing is known of the task no-such-task" in reply.message
    told = tasks("cancel", "no-such-task")
    assert told.startswith("Nothing is known of the task no-such-task: ")
    assert "If it comes up within 30 days, it will not start." in told


@pytest.mark.parametrize(("name", "words"), [("probe.fail", ("lookup",)), ("probe.long_fail", (99,))])
def test_a_task_that_has_failed_names_its_dead_letter(site, tasks, name, words):
    result = site.tasks[name].delay(f"dead {name}", *words)
    (letter,) = site.dead_letters.wait_for(task_id=result.id)

    report = json.loads(tasks("show", result.id, "--json"))
    told = shown(tasks("show", result.id))

    assert (report["dead_letter"], report["dead_letter_status"]) == (letter["id"], "open")
    assert told["dead letter"] == f"{letter['id']}, open: `manage.py deadletters show {letter['id']}`"
    assert told["task"] == f"{name} {result.id}"


def test_a_cancellation_is_not_undone_with_the_transaction_around_it(site, console, tasks):
    result = site.tasks["probe.part"].apply_async(("rolled back", ""), queue="bulk")

    outcome = console.run("cancel_in_transaction", task_id=result.id).value

    assert outcome["state"] == "waiting"
    assert shown(tasks("show", result.id))["cancelled"].endswith("by console: a test")
    assert tracked_row(site, result.id) is None
