"""Routing: a task's own queue, then rules by name, then rules by content, then the default queue."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from taskyard.errors import UnknownQueueError
from taskyard.queues import build_queue_table
from taskyard.routing import NameRule, QueueRouter

TABLE = build_queue_table({})


def by_customer(name, args, kwargs, headers):
    """A content rule: what is for a paying customer is urgent."""
    return "high" if kwargs.get("plan") == "gold" or headers.get("plan") == "gold" else None


ROUTER = QueueRouter(
    TABLE,
    name_rules=[NameRule("reports.*", "bulk"), NameRule("*.nightly", "low")],
    content_rules=[by_customer],
)


def route(name="mail.send", args=(), kwargs=None, *, declared=None, headers=None, router=ROUTER):
    options = {"headers": headers} if headers is not None else {}
    return router(name, args, kwargs or {}, options, task=SimpleNamespace(queue=declared))["queue"]


def test_the_declared_queue_wins_over_every_rule():
    assert route("reports.nightly", kwargs={"plan": "gold"}, declared="critical") == "critical"


def test_a_name_rule_wins_over_a_content_rule():
    assert route("reports.daily", kwargs={"plan": "gold"}) == "bulk"


def test_a_content_rule_wins_over_the_default():
    assert route(kwargs={"plan": "gold"}) == "high"
    assert route(headers={"plan": "gold"}) == "high"


def test_what_no_rule_takes_goes_to_the_default_queue():
    assert route() == "default"
    assert route(router=QueueRouter(build_queue_table({}, default="low"))) == "low"


def test_the_first_matching_rule_wins():
    assert route("reports.nightly") == "bulk"
    assert route("mail.nightly") == "low"


def test_patterns_match_the_whole_name_and_case_matters():
    assert route("my.reports.daily") == "default"
    assert route("Reports.daily") == "default"


def test_a_task_that_nobody_has_registered_is_routed_too():
    assert ROUTER("reports.daily", None, None, {}, task=None) == {"queue": "bulk"}
    assert ROUTER("mail.send", None, None, {"headers": None}) == {"queue": "default"}


def test_content_rules_get_name_arguments_and_headers():
    seen = []
    router = QueueRouter(TABLE, content_rules=[lambda *call: seen.append(call)])

    route("mail.send", (1, 2), {"a": 3}, headers={"h": 4}, router=router)

    assert seen == [("mail.send", (1, 2), {"a": 3}, {"h": 4})]


def test_content_rules_are_tried_in_order():
    rules = [lambda *_: None, lambda *_: "low", lambda *_: "bulk"]

    assert route(router=QueueRouter(TABLE, content_rules=rules)) == "low"


def test_a_name_rule_with_an_unknown_queue_is_refused_at_declaration():
    with pytest.raises(UnknownQueueError) as caught:
        QueueRouter(TABLE, name_rules=[NameRule("mail.*", "lwo")])

    assert str(caught.value) == (
        "The routing rule for 'mail.*' names the queue 'lwo', which does not exist. Did you mean 'low'? "
        "The queues are: critical, high, default, low, bulk."
    )


def test_a_content_rule_with_an_unknown_queue_is_refused_when_it_answers():
    router = QueueRouter(TABLE, content_rules=[lambda *_: "hihg"])

    with pytest.raises(UnknownQueueError) as caught:
        route(router=router)

    assert str(caught.value) == (
        "A content rule for task 'mail.send' names the queue 'hihg', which does not exist. "
        "Did you mean 'high'? The queues are: critical, high, default, low, bulk."
    )


def test_the_home_queue_is_what_declaration_and_name_decide():
    assert ROUTER.home_queue("reports.daily", None) == "bulk"
    assert ROUTER.home_queue("reports.daily", "high") == "high"
    assert ROUTER.home_queue("mail.send", None) == "default"
