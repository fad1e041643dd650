"""A message that is lost with its worker too often: one dead letter, and a replay that counts anew."""

from __future__ import annotations

import pytest

from taskyard.transport.keys import dead_key
from tests.support.waiting import wait_until

pytestmark = pytest.mark.faults
# One less than the transport's bound: the next loss is the last.
LOST_BEFORE = 4


def test_a_message_whose_worker_dies_for_the_last_time_is_one_dead_letter_and_can_be_replayed(
    valkey, new_site
):
    site = new_site(valkey.url)
    gate = site.new_gate()
    headers = {"x-delivery-count": LOST_BEFORE, "correlation_id": "request-7", "tenant": "acme"}
    worker = site.start_worker()
    result = site.tasks["probe.hold"].apply_async(
        ("held", str(gate)), queue="high", priority=8, headers=headers
    )
    site.history.wait_for_start("held")

    worker.kill()
    worker = site.start_worker()

    (row,) = site.dead_letters.wait_for(task_id=result.id, timeout_seconds=60)
    assert (row["reason"], row["queue"], row["priority"]) == ("poison", "high", 8)
    assert (row["correlation_id"], row["args"]) == ("request-7", ["held", str(gate)])
    assert "5 times" in row["error"]
    assert len(site.history.starts("held")) == 1

    gate.open()
    task_id = site.start_console().value("replay_dead_letter", letter_id=row["id"])

    (run,) = site.history.wait_for_end("held")
    assert (run["task_id"], run["queue"], run["priority"]) == (task_id, "high", 8)
    assert (run["correlation_id"], run["headers"]["tenant"]) == ("request-7", "acme")
    wait_until(
        lambda: valkey.client().llen(dead_key("high")) == 0,
        timeout_seconds=10,
        what="the dead list is empty",
    )
    assert len(site.dead_letters.rows()) == 1
