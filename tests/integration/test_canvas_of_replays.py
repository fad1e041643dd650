"""A replay goes on where the failure broke off: the chain, the group, the chord; for real."""

import json

import pytest

from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
TOKEN = "a-token-that-nobody-may-see"


@pytest.fixture(scope="module")
def site(valkey, shared_site):
    return shared_site(valkey.url)


@pytest.fixture(scope="module")
def worker(site):
    return site.start_worker(processes=2)


@pytest.fixture(scope="module")
def console(site, worker):
    return site.start_console()


@pytest.fixture
def mended(site):
    return site.new_gate()


@pytest.fixture
def mend(site, mended):
    return lambda key, **options: site.tasks["probe.mend"].s(key, str(mended)).set(**options)


@pytest.fixture
def replay(site, console, mended):
    """Mend what was broken, and replay the dead letters of these keys."""

    def replay(*keys):
        mended.open()
        for key in keys:
            (run,) = site.history.starts(key)
            site.dead_letters.wait_for(task_id=run["task_id"])
            console.value("replay_letter", task_id=run["task_id"])

    return replay


@pytest.fixture
def failed(site):
    """Wait until the runs of these keys are dead letters."""

    def wait(*keys):
        for key in keys:
            (run,) = site.history.wait_for_start(key)
            site.dead_letters.wait_for(task_id=run["task_id"])

    return wait


def collect(site, key):
    return site.tasks["probe.collect"].s(key)


def earlier(site, key):
    """What came to the collecting task, once it has run; it has run once."""
    (run,) = site.history.wait_for_end(key)
    return run["earlier"]


def test_a_replayed_middle_link_goes_on_with_its_chain(site, mend, failed, replay):
    trace = site.tasks["probe.trace"]
    chain = trace.si(None, "chain.1") | mend("chain.2") | trace.s("chain.3") | collect(site, "chain.4")
    result = chain.apply_async()
    failed("chain.2")

    replay("chain.2")

    assert earlier(site, "chain.4") == "chain.3"
    # the failed run stays failed; its replay is another task
    assert site.app.AsyncResult(result.id).get(timeout=30) == "chain.4"
    (first,) = site.history.starts("chain.1")
    assert {run["correlation_id"] for run in site.history.records(key="chain.4")} == {first["correlation_id"]}


def test_a_replayed_task_calls_its_callbacks(site, mend, failed, replay):
    mend("linked").apply_async((None,), link=[collect(site, "linked.a"), collect(site, "linked.b")])
    failed("linked")

    replay("linked")

    assert earlier(site, "linked.a") == earlier(site, "linked.b") == "linked"


def test_a_replay_that_fails_again_calls_its_error_callbacks_again(site, console, mend, failed):
    note = site.tasks["probe.note_failure"].s("noted")
    mend("noted").apply_async((None,), link_error=note)
    failed("noted")
    (run,) = site.history.starts("noted")

    console.value("replay_letter", task_id=run["task_id"])

    found = wait_until(
        lambda: len(calls := site.history.records("failure", key="noted")) == 2 and calls,
        timeout_seconds=30,
        what="the error callback is called twice",
    )
    assert found[0]["failed"] == run["task_id"] != found[1]["failed"]


def test_options_of_the_call_survive(site, mend, failed, replay):
    mend("options").apply_async(
        (None,), soft_time_limit=300, time_limit=400, queue="high", priority=8, headers={"tenant": "acme"}
    )
    failed("options")

    replay("options")

    (run,) = site.history.wait_for_end("options")
    assert (run["queue"], run["priority"], run["time_limits"]) == ("high", 8, [400, 300])
    assert run["headers"]["tenant"] == "acme"


class TestChords:
    """A chord of three parts, of which some break."""

    @pytest.fixture
    def start(self, site, mend):
        def start(name, *broken, gate=None):
            from celery import chord

            trace, hold = site.tasks["probe.trace"], site.tasks["probe.hold"]
            parts = [mend(f"{name}.{n}") if n in broken else trace.s(f"{name}.{n}") for n in (1, 2, 3)]
            if gate is not None:
                parts.append(hold.si(f"{name}.held", str(gate)).set(ignore_result=False))
            body = collect(site, f"{name}.body").on_error(site.tasks["probe.note_failure"].s(f"{name}.error"))
            return chord([part.clone(args=(None,)) for part in parts[:3]] + parts[3:], body).apply_async()

        return start

    @pytest.fixture
    def is_over(self, site):
        """Wait until the chord has called its error callback."""
        return lambda name: wait_until(
            lambda: site.history.records("failure", key=f"{name}.error"),
            timeout_seconds=30,
            what="the chord has failed",
        )

    def test_a_part_replayed_while_the_chord_counts_takes_its_place(self, site, start, failed, replay):
        gate = site.new_gate()
        result = start("counting", 2, gate=gate)
        failed("counting.2")
        site.history.wait_for_start("counting.held")

        replay("counting.2")
        site.history.wait_for_end("counting.2")
        gate.open()

        assert earlier(site, "counting.body") == ["counting.1", "counting.2", "counting.3", None]
        assert site.app.AsyncResult(result.id).get(timeout=30) == "counting.body"
        assert site.history.records("failure", key="counting.error") == []

    def test_a_part_replayed_after_the_chord_has_failed_completes_it(
        self, site, start, failed, is_over, replay
    ):
        result = start("over", 1)
        failed("over.1")
        is_over("over")

        replay("over.1")

        assert earlier(site, "over.body") == ["over.1", "over.2", "over.3"]
        assert site.app.AsyncResult(result.id).get(timeout=30) == "over.body"
        assert len(site.history.records("failure", key="over.error")) == 1

    def test_the_body_waits_until_all_failed_parts_are_replayed(self, site, start, failed, is_over, replay):
        start("several", 1, 3)
        failed("several.1", "several.3")
        is_over("several")

        replay("several.1")
        site.history.wait_for_end("several.1")
        assert site.history.ends("several.body") == []
        replay("several.3")

        assert earlier(site, "several.body") == ["several.1", "several.2", "several.3"]
        assert len(site.history.records("failure", key="several.error")) == 1

    def test_a_part_that_fails_again_fails_the_chord_again(
        self, site, console, start, failed, is_over, replay
    ):
        start("again", 2)
        failed("again.2")
        is_over("again")
        (run,) = site.history.starts("again.2")

        second = console.value("replay_letter", task_id=run["task_id"])

        wait_until(
            lambda: len(site.history.records("failure", key="again.error")) == 2,
            timeout_seconds=30,
            what="the chord has failed twice",
        )
        site.dead_letters.wait_for(task_id=second)
        assert site.history.ends("again.body") == []

    def test_a_chain_within_a_chord_goes_on_to_its_end(self, site, mend, failed, is_over, replay):
        from celery import chord

        trace = site.tasks["probe.trace"]
        body = collect(site, "inner.body").on_error(site.tasks["probe.note_failure"].s("inner.error"))
        chord([mend("inner.1").clone(args=(None,)) | trace.s("inner.2"), trace.s(None, "inner.3")], body)()
        failed("inner.1")
        is_over("inner")

        replay("inner.1")

        assert earlier(site, "inner.body") == ["inner.2", "inner.3"]

    def test_a_part_of_a_group_within_a_chord_takes_its_place(self, site, mend, failed, is_over, replay):
        from celery import chord, group

        trace = site.tasks["probe.trace"]
        inner = group([mend("nest.1").clone(args=(None,)), trace.s(None, "nest.2")])
        body = collect(site, "nest.body").on_error(site.tasks["probe.note_failure"].s("nest.error"))
        chord([inner, trace.s(None, "nest.3")], body)()
        failed("nest.1")
        is_over("nest")

        replay("nest.1")

        # as Celery passes them on: flat, those of one group in any order
        assert sorted(earlier(site, "nest.body")) == ["nest.1", "nest.2", "nest.3"]


def test_what_follows_is_stored_masked_and_runs_with_the_truth(site, mended, failed, replay):
    mend, collect = site.tasks["probe.mend_secret"], site.tasks["probe.collect"]
    note = site.tasks["probe.note_failure"]
    chain = (
        mend.s(None, "hidden.1", str(mended), TOKEN)
        | collect.s("hidden.2", token=TOKEN)
        | collect.s("hidden.3", TOKEN)
    )
    chain.apply_async(link_error=note.s("hidden.error", TOKEN))
    failed("hidden.1")
    (row,) = site.dead_letters.rows(task_id=site.history.starts("hidden.1")[0]["task_id"])

    replay("hidden.1")

    assert TOKEN not in json.dumps(row, default=str)
    (last,) = site.history.wait_for_end("hidden.3")
    (before,) = site.history.ends("hidden.2")
    assert (before["earlier"], last["earlier"]) == ("hidden.1", "hidden.2")
    assert before["token_length"] == last["token_length"] == len(TOKEN)
    assert [run["has_token"] for run in site.history.starts("hidden.1")] == [True, True]
    (noted,) = site.history.records("failure", key="hidden.error")
    assert noted["token_length"] == len(TOKEN)
