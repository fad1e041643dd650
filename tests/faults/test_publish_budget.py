"""A broker that is frozen or gone: a publish ends within its budget, and a page that publishes answers."""

from concurrent.futures import ThreadPoolExecutor

import pytest

pytestmark = pytest.mark.faults
# What the machine may add to the budget: the tests share two cores.
SLACK_SECONDS = 0.5
BUDGET_SECONDS = 1.0
DEFAULT_BUDGET_SECONDS = 2.0

# A task without and one with results.
CALLS = [("record", ["budget"]), ("add", [1, 2])]


@pytest.fixture
def site(own_broker, new_site):
    return new_site(own_broker.url, PUBLISH_TIMEOUT_SECONDS=BUDGET_SECONDS)


@pytest.fixture
def console(site):
    """A process that has never spoken to the broker."""
    return site.start_console()


def assert_refused_in_time(reply, budget_seconds=BUDGET_SECONDS):
    assert reply.error[0] == "PublishTimeoutError", reply
    assert {"PublishError", "OperationalError"} <= set(reply.error)
    assert f"within {budget_seconds:g} s" in reply.message
    assert reply.seconds < budget_seconds + SLACK_SECONDS


def publish_all(console):
    return [console.run("publish", task=task, args=args) for task, args in CALLS]


def test_a_publish_to_a_frozen_broker_ends_in_time_and_the_process_publishes_again(own_broker, console):
    own_broker.freeze()

    cold = publish_all(console)
    page = console.value("get_page", path="/publish/?task=record&argument=page")

    own_broker.thaw()
    thawed = publish_all(console)
    own_broker.freeze()
    warm = publish_all(console)
    own_broker.thaw()
    for reply in [*cold, *warm]:
        assert_refused_in_time(reply)
    assert page["status"] == 503
    assert [reply.error for reply in thawed] == [(), ()]
    assert [reply.error for reply in publish_all(console)] == [(), ()]


def test_a_publish_to_a_closed_port_ends_in_time_and_the_process_publishes_again(own_broker, console):
    own_broker.stop()

    cold = publish_all(console)
    page = console.value("get_page", path="/publish/?task=record&argument=page")

    own_broker.restart()
    restarted = publish_all(console)
    own_broker.kill()
    warm = publish_all(console)
    own_broker.restart()
    for reply in [*cold, *warm]:
        assert_refused_in_time(reply)
    assert page["status"] == 503
    assert [reply.error for reply in restarted] == [(), ()]
    assert [reply.error for reply in publish_all(console)] == [(), ()]


def test_a_broker_that_is_back_within_the_budget_takes_the_message(own_valkey, new_site):
    console = new_site(own_valkey.url, PUBLISH_TIMEOUT_SECONDS=20).start_console()
    own_valkey.kill()

    with ThreadPoolExecutor(1) as thread:
        publishing = thread.submit(console.run, "publish", task="record", args=["patient"])
        own_valkey.restart()

    assert publishing.result().error == ()
    assert own_valkey.client().llen("default") == 1


def test_the_default_budget_is_two_seconds(own_valkey, new_site):
    console = new_site(own_valkey.url).start_console()
    own_valkey.freeze()

    reply = console.run("publish", task="record", args=["default budget"])

    assert_refused_in_time(reply, DEFAULT_BUDGET_SECONDS)
    assert reply.seconds > DEFAULT_BUDGET_SECONDS - SLACK_SECONDS


def test_what_a_full_broker_refuses_is_refused_at_once(own_valkey, new_site):
    console = new_site(own_valkey.url).start_console()
    own_valkey.client().config_set("maxmemory", own_valkey.client().info("memory")["used_memory"] - 1)

    reply = console.run("publish", task="record", args=["full"])

    own_valkey.client().config_set("maxmemory", 0)
    assert reply.error[0] == "PublishError"
    assert "the broker refused it" in reply.message
    assert reply.seconds < BUDGET_SECONDS / 2
    assert console.run("publish", task="record", args=["no longer full"]).error == ()
