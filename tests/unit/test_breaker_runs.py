"""Runs under a circuit breaker: parked, counted, announced; on a real server, without a worker."""

from __future__ import annotations

import logging
import traceback
from dataclasses import replace

import pytest
from celery._state import pop_current_task, push_current_task
from celery.exceptions import Ignore, Retry

from taskyard import Breaker, Never, Snooze, breaker, signals
from taskyard.breakers import overview
from taskyard.breakers.guard import ParkLog
from taskyard.breakers.outage import LOG_SECONDS, PAUSE_SECONDS, Outage
from taskyard.breakers.store import breaker_store
from taskyard.tasks.idempotent_task import IdempotentTask
from tests.support.breakers import MovableClock
from tests.support.fixtures import running
from tests.support.runs import PartnerError, do_nothing, fail, now, run
from tests.support.servers import ValkeyServer

pytestmark = pytest.mark.usefixtures("recorded_failures")
# Opens with the first failure, and for as long as a test lasts.
FRAGILE = Breaker("bank", minimum_calls=1, open_seconds=600)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with running(ValkeyServer(tmp_path_factory.mktemp("state"))) as server:
        yield server


@pytest.fixture
def app(make_app, server):
    server.client().flushall()
    app = make_app(STATE_URL=server.url)
    # a process has one for each address: what an earlier test has seen of it does not matter
    breaker_store(app.settings).outage = Outage()
    return app


@pytest.fixture
def declare(app):
    def declare(body=fail, name="breaker.probe", **options):
        app.task(name=name, **({"retry": Never(), "breaker": FRAGILE} | options))(body)
        return app.tasks[name]

    return declare


@pytest.fixture
def take(app):
    def take():
        with app.connection_for_read() as connection:
            channel = connection.default_channel
            return list(iter(lambda: channel.basic_get("default", no_ack=True), None))

    return take


@pytest.fixture
def lines(caplog):
    caplog.set_level(logging.INFO, "taskyard")
    return lambda: [record.msg for record in caplog.records if record.name.startswith("taskyard.")]


@pytest.fixture
def changes():
    seen = []

    def note(**change):
        seen.append({name: change[name] for name in ("name", "before", "after", "reason")})

    signals.breaker_changed.connect(note)
    yield seen
    signals.breaker_changed.disconnect(note)


def states(app):
    return {state.name: state.state for state in overview(app.settings)}


def open_breaker(task, *args):
    with pytest.raises(PartnerError):
        run(task, *args)


class TestParking:
    def test_it_runs_again_later_with_the_same_attempts(self, declare, take):
        task = declare(retry=None)
        with pytest.raises(Retry):
            run(task, 7)
        take()
        headers = {"tenant": "acme", "first_published_at": now() - 5}

        with pytest.raises(Retry) as caught:
            run(task, 7, retries=2, headers=headers)

        (message,) = take()
        assert message.payload[0] == [7]
        assert message.headers["retries"] == 2
        assert (message.headers["tenant"], message.headers["eta"] is None) == ("acme", False)
        assert message.headers["first_published_at"] == headers["first_published_at"]
        assert caught.value.when == pytest.approx(600, abs=5)

    def test_its_code_is_not_reached(self, declare):
        calls = []

        def body():
            calls.append(1)
            raise PartnerError

        task = declare(body)
        open_breaker(task)
        with pytest.raises(Retry):
            run(task)

        assert calls == [1]

    def test_its_outcome_is_small(self, declare):
        """It goes from the process to its parent, with all of its frames, for each parked run."""
        task = declare()
        open_breaker(task)

        with pytest.raises(Retry) as caught:
            run(task)

        assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "run_task"
        assert caught.value.__suppress_context__

    def test_a_task_that_was_parked_for_too_long_is_a_dead_letter(self, declare, recorded_failures):
        task = declare()
        open_breaker(task)

        with pytest.raises(Snooze):
            run(task, headers={"first_published_at": now() - 7 * 24 * 3600})

        assert recorded_failures[-1].reason == "snoozed_too_long"

    def test_thousands_of_parked_runs_are_one_line(self, declare, lines):
        task = declare(name="breaker.thousands", breaker=replace(FRAGILE, name="thousands"))
        open_breaker(task)
        before = len(lines())

        for _ in range(100):
            with pytest.raises(Retry):
                run(task)

        (line,) = lines()[before:]
        assert (line["event"], line["breaker"], line["parked"]) == ("tasks parked", "thousands", 1)
        assert line["next_run_in_seconds"] == pytest.approx(600, abs=5)

    def test_a_run_that_begins_has_its_lines(self, declare, lines):
        run(declare(do_nothing))

        assert [line["event"] for line in lines()] == ["task started", "task succeeded"]

    def test_the_next_line_tells_how_many_there_were(self, lines):
        clock = MovableClock()
        log = ParkLog(clock)

        for _ in range(31):
            log.note("bank", 5.0)
            clock.move(2)

        assert [line["parked"] for line in lines()] == [1, 30]


class TestCounting:
    def test_a_change_is_one_line_and_one_signal(self, declare, lines, changes):
        open_breaker(declare())

        reason = (
            "1 of 1 calls failed within 60 s, the last one with PartnerError; the first probe is in 600 s"
        )
        (line,) = [line for line in lines() if line["event"] == "circuit breaker changed"]
        assert (line["level"], line["breaker"], line["after"]) == ("warning", "bank", "open")
        assert line["reason"] == reason
        assert changes == [{"name": "bank", "before": "closed", "after": "open", "reason": reason}]

    def test_a_receiver_that_fails_changes_nothing(self, declare, app):
        def break_down(**_):
            raise RuntimeError("the alert cannot be sent")

        signals.breaker_changed.connect(break_down)
        try:
            open_breaker(declare())
        finally:
            signals.breaker_changed.disconnect(break_down)

        assert states(app) == {"bank": "open"}

    def test_what_the_task_asks_to_be_retried_counts_by_its_reason(self, app, declare):
        def body(self):
            raise self.retry(exc=PartnerError("down"), countdown=1)

        with pytest.raises(Retry):
            run(declare(body, bind=True))

        assert states(app) == {"bank": "open"}

    def test_a_run_that_never_reached_its_code_is_no_success(self, app, declare):
        def charge(order):
            return "charged"

        task = declare(charge, base=IdempotentTask, idempotency_key="order", idempotency_ttl=60)
        run(task, 7)

        assert run(task, 7) == "charged"

        (state,) = overview(app.settings)
        assert state.calls == 1

    def test_the_error_is_shown_without_its_text(self, app, declare, lines):
        def charge(card):
            raise PartnerError(f"the card {card} is unknown")

        task = declare(charge)
        open_breaker(task, "4111")

        (state,) = overview(app.settings)
        assert state.last_error == "PartnerError"
        assert "4111" not in repr([line for line in lines() if "breaker" in line["event"]])


class TestNames:
    @pytest.mark.parametrize("name", ["feed:{host}", lambda host: f"feed:{host}"])
    def test_each_value_has_its_own(self, app, declare, name):
        def fetch(host, page=1):
            raise PartnerError

        task = declare(fetch, breaker=replace(FRAGILE, name=name))
        open_breaker(task, "a.example")
        open_breaker(task, "b.example")
        with pytest.raises(Retry):
            run(task, "a.example")

        assert states(app) == {"feed:a.example": "open", "feed:b.example": "open"}

    def test_a_marked_argument_is_not_shown(self, app, declare):
        def fetch(token):
            raise PartnerError

        open_breaker(declare(fetch, breaker=replace(FRAGILE, name="{token}"), redact=("token",)), "secret-7")

        assert "secret-7" not in repr(states(app))

    def test_a_long_name_is_shortened(self, app, declare):
        def fetch(host):
            raise PartnerError

        open_breaker(declare(fetch, breaker=replace(FRAGILE, name="{host}")), "x" * 5000)

        (name,) = states(app)
        assert len(name) <= 200

    def test_a_call_that_does_not_fit_fails_as_without_a_breaker(self, app, declare):
        def fetch(host):
            """Never reached."""

        with pytest.raises(TypeError, match="missing 1 required positional argument: 'host'"):
            run(declare(fetch, breaker="{host}"))

        assert states(app) == {}


class TestInsideATask:
    @pytest.fixture
    def declare(self, declare):
        """Declare a task that is the current one from then on, as the running one is in a worker."""
        pushed = []

        def declare_current(body=fail, **options):
            task = declare(body, **options)
            push_current_task(task)
            pushed.append(task)
            return task

        yield declare_current
        for _ in pushed:
            pop_current_task()

    def test_it_parks_the_task(self, app, declare, take):
        calls = []

        def deliver(host):
            with breaker(replace(FRAGILE, name="webhooks:{host}"), host=host):
                calls.append(host)
                raise PartnerError

        task = declare(deliver, breaker=None)
        open_breaker(task, "a.example")
        with pytest.raises(Retry):
            run(task, "a.example", retries=3)

        assert calls == ["a.example"]
        assert states(app) == {"webhooks:a.example": "open"}
        assert take()[0].headers["retries"] == 3

    def test_a_name_that_a_task_declares_has_the_parameters_from_there(self, app, declare):
        def call():
            with breaker("bank"):
                raise PartnerError

        declare()
        open_breaker(declare(call, name="breaker.inside", breaker=None))

        assert states(app) == {"bank": "open"}

    def test_another_name_has_the_defaults(self, app, declare):
        def call():
            with breaker("api.example"):
                raise PartnerError

        open_breaker(declare(call, breaker=None))

        assert states(app) == {"api.example": "closed"}

    def test_only_the_block_counts(self, app, declare):
        def call():
            with breaker(FRAGILE):
                pass
            raise PartnerError

        open_breaker(declare(call, breaker=None))

        assert states(app) == {"bank": "closed"}

    def test_a_decision_inside_the_block_is_no_failure(self, app, declare):
        def call():
            with breaker(FRAGILE):
                raise Ignore

        with pytest.raises(Ignore):
            run(declare(call, breaker=None))

        assert states(app) == {}


class TestWithoutTheStore:
    @pytest.fixture
    def away(self, make_app):
        app = make_app(STATE_URL="redis://127.0.0.1:1/7")
        # a process has one for each address: no other test's
        breaker_store(app.settings).outage = Outage(MovableClock())
        return app

    def test_calls_pass_and_the_log_says_so_once(self, away, lines):
        calls = []

        def call():
            calls.append(1)

        away.task(name="breaker.probe", breaker="bank")(call)
        clock = breaker_store(away.settings).outage._clock

        for _ in range(13):
            run(away.tasks["breaker.probe"])
            clock.move(PAUSE_SECONDS)

        told = [line for line in lines() if line["event"] == "circuit breakers are not asked, calls pass"]
        assert len(calls) == 13
        assert 13 * PAUSE_SECONDS > LOG_SECONDS
        assert len(told) == 2
        assert "does not answer" in told[0]["reason"]

    def test_it_is_not_asked_again_at_once(self):
        clock = MovableClock()
        outage = Outage(clock)

        outage.note("gone")

        assert outage.is_on
        clock.move(PAUSE_SECONDS)
        assert not outage.is_on

    def test_with_state_in_the_database_calls_pass(self, make_app):
        app = make_app(STATE_URL="django-db")
        calls = []

        def call():
            with breaker("bank"):
                calls.append(1)

        app.task(name="breaker.probe", breaker=FRAGILE)(call)
        run(app.tasks["breaker.probe"])

        assert calls == [1]
        assert overview(app.settings) == []
