"""What follows a task is kept with its dead letter, shown masked, and given back to its replay."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from celery import chain, chord, group
from celery.app.task import Context

from taskyard.errors import PublishError
from taskyard.masking import MASK
from taskyard.tasks import failures
from taskyard.tasks.canvas_parts import canvas_of, published_limits, republish_options, shown
from taskyard.tasks.chord_parts import reopen_chord
from taskyard.tasks.representations import shown_representations

CARD = "4929-9999-0000-1111"


@pytest.fixture
def app(memory_app):
    """With tasks that mark an argument, and one that marks none."""

    @memory_app.task(name="canvas.plain")
    def plain(*args, **kwargs): ...

    @memory_app.task(name="canvas.charge", redact=("card",))
    def charge(order, card, note=""): ...

    @memory_app.task(name="canvas.all", redact=("*",))
    def everything(*args, **kwargs): ...

    return memory_app


@pytest.fixture
def plain(app):
    return app.tasks["canvas.plain"]


@pytest.fixture
def charge(app):
    return app.tasks["canvas.charge"]


@pytest.fixture
def request_of(take_messages):
    """Publish a signature, and return the request that a worker would run it as."""

    def request_of(signature, **options):
        signature.apply_async(**options)
        message = take_messages()[0]
        args, kwargs, embedded = message.payload
        return Context({**message.headers, **embedded, "args": args, "kwargs": kwargs})

    return request_of


def through_json(value):
    return json.loads(json.dumps(value))


class TestCanvas:
    def test_a_plain_call_has_hardly_any(self, plain, request_of):
        request = request_of(plain.s(1))

        assert canvas_of(request) == {"root_id": request.id, "ignore_result": True}

    def test_all_that_belongs_to_the_call_is_in_it(self, plain, request_of, clock):
        expires = clock.now() + timedelta(days=99_999)
        request = request_of(
            plain.s(1),
            link=plain.s("next"),
            link_error=plain.s("error"),
            chain=[plain.s("last"), plain.s("then")],
            chord=plain.s("body"),
            group_id="g-1",
            group_index=0,
            root_id="r-1",
            parent_id="p-1",
            ignore_result=False,
            expires=expires,
            time_limit=20,
            soft_time_limit=10,
            shadow="other name",
            stamped_headers=["tenant"],
            tenant="acme",
            replaced_task_nesting=2,
        )

        canvas = canvas_of(request)

        assert [step["args"] for step in canvas.pop("chain")] == [["last"], ["then"]]
        assert [step["args"] for step in canvas.pop("callbacks")] == [["next"]]
        assert [step["args"] for step in canvas.pop("errbacks")] == [["error"]]
        assert canvas.pop("chord")["args"] == ["body"]
        assert canvas == {
            "group": "g-1",
            "group_index": 0,
            "root_id": "r-1",
            "parent_id": "p-1",
            "ignore_result": False,
            "expires": expires.isoformat(),
            "timelimit": [20, 10],
            "shadow": "other name",
            "stamped_headers": ["tenant"],
            "stamps": {"tenant": "acme"},
            "replaced_task_nesting": 2,
        }

    def test_the_limits_are_those_of_the_caller(self):
        of_queue = {"timelimit": [300, 270], "properties": {"published_timelimit": (None, None)}}

        assert published_limits(Context(of_queue)) == (None, None)
        assert "timelimit" not in canvas_of(Context(of_queue))
        assert published_limits(Context(timelimit=[20, 10])) == (20, 10)
        assert published_limits(Context()) == (None, None)


class TestRepublish:
    def test_a_call_that_is_published_again_has_the_same_canvas(self, app, plain, request_of):
        step = plain.s("one").set(time_limit=20, shadow="other", stamped_headers=["tenant"], tenant="acme")
        step.link_error(plain.s("error"))
        first = request_of(chord([step | plain.s("two"), plain.s("three")], plain.s("body")))
        canvas = canvas_of(first)

        again = request_of(plain.s("one"), **republish_options(through_json(canvas)))

        assert canvas["chain"]
        assert canvas["errbacks"]
        assert through_json(canvas_of(again)) == through_json(canvas)

    def test_a_part_of_a_chord_stays_one(self, app, plain, request_of):
        first = canvas_of(request_of(chord([plain.s(1), plain.s(2)], plain.s("body"))))

        again = canvas_of(request_of(plain.s(1), **republish_options(through_json(first))))

        assert again["chord"]["args"] == ["body"]
        assert (again["group"], again["group_index"]) == (first["group"], 0)

    def test_an_expiry_ahead_is_kept_and_one_that_is_past_is_not(self, clock):
        later, before = clock.now() + timedelta(minutes=1), clock.now() - timedelta(minutes=1)

        assert republish_options({"expires": later.isoformat()}, clock=clock) == {
            "expires": later.isoformat()
        }
        for past in (before.isoformat(), "tomorrow", 7, None):
            assert republish_options({"expires": past}, clock=clock) == {}

    def test_an_expiry_without_a_zone_is_in_utc(self, clock):
        text = (clock.now() + timedelta(minutes=1)).replace(tzinfo=None).isoformat()

        assert republish_options({"expires": text}, clock=clock) == {"expires": text}

    def test_one_limit_alone_is_kept_alone(self):
        assert republish_options({"timelimit": [20, None]}) == {"time_limit": 20}


class TestShown:
    """Signatures hold the arguments of other tasks."""

    def hidden(self, app, value):
        """The value as it may be shown, as JSON; the other one is left as it was."""
        before = json.dumps(value)

        text = json.dumps(shown(value, app))

        assert json.dumps(value) == before
        assert CARD not in text
        assert MASK in text
        return text

    def test_marked_arguments_by_name_and_by_place(self, app, charge):
        assert '"note": "shown"' in self.hidden(app, charge.si(7, card=CARD, note="shown"))
        assert "7" in self.hidden(app, charge.si(7, CARD))

    def test_what_comes_first_may_shift_the_places(self, app, charge):
        self.hidden(app, charge.s(CARD))
        self.hidden(app, through_json(charge.s(CARD)))

    def test_all_of_a_task_that_this_process_does_not_know(self, app):
        self.hidden(app, app.signature("nobody.knows", args=(CARD,), kwargs={"x": CARD}, immutable=True))

    def test_canvases_within_canvases(self, app, plain, charge):
        secret = charge.s(CARD)
        for canvas in (
            chain(plain.s(), secret, plain.s()),
            group([plain.s(), group([secret])]),
            chord([plain.s(), chain(plain.s(), secret)], plain.s()),
            chord([plain.s()], secret),
            plain.s().set(link=[plain.s().set(link_error=[secret])]),
            plain.s(secret),
            plain.s({"then": [secret]}),
            charge.map([[1, CARD]]),
            charge.starmap([[1, CARD]]),
            charge.chunks([[1, CARD], [2, CARD]], 1),
            charge.chunks([[1, CARD], [2, CARD]], 1).group(),
        ):
            self.hidden(app, through_json(canvas))

    def test_what_is_not_marked_is_shown(self, app, plain, charge):
        for canvas in (plain.s(CARD), charge.si(CARD, "x"), plain.map([CARD]), [CARD, {"a": CARD}]):
            assert CARD in json.dumps(shown(through_json(canvas), app))

    @pytest.mark.parametrize(
        "value",
        [{"task": "x"}, {"task": 7, "args": []}, {"task": "canvas.plain", "args": 7, "kwargs": []}, 1, None],
    )
    def test_odd_values_do_no_harm(self, app, value):
        shown(value, app)

    def test_what_is_nested_without_end_is_masked(self, app):
        value = CARD
        for _ in range(500):
            value = [value]

        assert CARD not in json.dumps(shown(value, app))

    def test_a_dead_letter_keeps_both(self, app, charge):
        request = Context(id="id-1", hostname="w1", chain=[charge.s(CARD)], headers={})

        failure = failures.from_run(
            charge, request, [7], {"card": "secret-card"}, error=ValueError("no secret-card"), reason="x"
        )

        assert (failure.args, failure.kwargs) == ([7], {"card": MASK})
        assert (failure.true_args, failure.true_kwargs) == ([7], {"card": "secret-card"})
        assert failure.canvas["chain"][0]["args"] == [MASK]
        assert failure.true_canvas["chain"][0]["args"] == (CARD,)
        assert failure.worker == "w1"
        assert CARD not in repr(failure)
        assert "secret-card" not in repr(failure)


class TestRepresentations:
    """What events, logs and Flower show."""

    def test_calls_without_marks_are_left_to_celery(self, plain):
        assert shown_representations(plain, (1, "x"), {"y": [1]}) is None

    def test_marked_arguments_are_masked(self, charge):
        assert shown_representations(charge, (7, CARD), {}) == (f"(7, '{MASK}')", "{}")

    def test_celerys_own_tasks_show_no_arguments_of_others(self, app, charge):
        signature = charge.starmap([[7, CARD]])

        texts = shown_representations(app.tasks[signature.task], signature.args, signature.kwargs)

        assert CARD not in "".join(texts)

    def test_a_task_that_is_given_a_signature_shows_nothing_of_it(self, plain, charge):
        assert CARD not in "".join(shown_representations(plain, (charge.s(CARD),), {}))

    def test_the_message_says_the_same(self, app, charge, take_messages):
        charge.starmap([[7, CARD]]).apply_async()

        (message,) = take_messages()
        assert CARD not in json.dumps(message.headers)


def test_a_chord_whose_result_store_is_away_is_said_to_be(make_app, settings):
    settings.CELERY_RESULT_BACKEND = "redis://127.0.0.1:1/0"
    app = make_app()

    with pytest.raises(
        PublishError, match=r"^The chord of task id-1 does not wait for its replay: the result"
    ):
        reopen_chord(app, {"chord": {"task": "x"}, "group_id": "g"}, task_id="id-1")


def test_a_task_without_a_chord_asks_no_result_store(make_app, settings):
    settings.CELERY_RESULT_BACKEND = "redis://127.0.0.1:1/0"

    assert not reopen_chord(make_app(), {"group_id": "g", "chain": [{"task": "x"}]}, task_id="id-1")


def test_results_elsewhere_cannot_do_it(memory_app):
    assert not reopen_chord(memory_app, {"chord": {"task": "x"}, "group_id": "g"}, task_id="id-1")


@pytest.mark.parametrize("limits", [(None, None), (20, None), (20, 10)])
def test_a_retry_states_the_limits_of_the_caller_and_not_those_of_its_run(plain, limits):
    """Those of the queue may have been changed meanwhile, because of this very failure."""
    request = Context(
        id="id-1",
        args=[1],
        kwargs={},
        timelimit=[300, 270],
        properties={"published_timelimit": limits},
        delivery_info={"exchange": "default", "routing_key": "default"},
    )

    options = plain.signature_from_request(request, countdown=1).options

    assert (options["time_limit"], options["soft_time_limit"]) == limits
    assert plain.signature_from_request(request, time_limit=5).options["time_limit"] == 5
