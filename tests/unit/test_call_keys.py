"""Which calls of a task are the same work: keys from names, templates and functions."""

from __future__ import annotations

import datetime
import decimal
import json
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kombu.utils.json import dumps, loads

from taskyard.errors import ArgumentError, TaskDefinitionError
from taskyard.tasks.call_keys import call_key, check_key_spec, stored_key

DAY = datetime.date(2026, 3, 1)
CARD = "4111111111111111"


def charge(order_id, kind="full", *, day=None, address=None, card=None):
    """The task of these tests."""


def take_anything(*args, **kwargs):
    """A task that names none of its arguments."""


@pytest.fixture
def task(declare):
    return declare(charge)


def key(task, spec, *args, **kwargs):
    return call_key(task, spec, args, kwargs)


class TestTheKey:
    @pytest.mark.parametrize(
        ("spec", "expected"),
        [
            ("order_id", "7"),
            ("kind", "full"),
            ("{order_id}-{kind}", "7-full"),
            ("{day:%Y-%m}", "2026-03"),
            ("{address[city]}", "Oslo"),
            ("", ""),
            (lambda order_id: order_id % 4, "3"),
            (lambda address, kind: f"{kind} {address['city']}", "full Oslo"),
            (lambda **arguments: ",".join(arguments), "order_id,kind,day,address,card"),
        ],
    )
    def test_it_is_made_as_declared(self, task, spec, expected):
        assert key(task, spec, 7, day=DAY, address={"city": "Oslo"}) == expected

    def test_all_arguments_make_one_that_a_person_can_read(self, task):
        assert json.loads(key(task, "*", 7)) == {
            "order_id": 7,
            "kind": "full",
            "day": None,
            "address": None,
            "card": None,
        }

    @pytest.mark.parametrize(
        "template", ["{order_id}-{kind}", "pay {order_id}--{kind}.", "{kind}€{order_id}"]
    )
    @given(st.tuples(*[st.text("ab-%2D€.", min_size=1, max_size=4)] * 4))
    def test_different_values_of_a_template_have_different_keys(self, template, values):
        one = _key_or_error(FREE, template, values[0], values[1])
        other = _key_or_error(FREE, template, values[2], values[3])

        assert one is not None
        assert (one == other) == (values[:2] == values[2:])

    def test_a_template_of_one_field_shows_its_value_as_it_is(self, task):
        assert key(task, "order-{order_id}", "a-b%") == "order-a-b%"

    def test_the_separator_of_a_template_is_escaped_in_its_values(self, task):
        assert key(task, "{order_id}-{kind}", "a-b", "50%") == "a%2Db-50%25"

    def test_an_object_without_a_text_of_its_own_is_no_key(self, task):
        with pytest.raises(ArgumentError, match=r"failed with TypeError\. Correct the key"):
            key(task, lambda order_id: object(), 7)

    @pytest.mark.parametrize("value", ["a\x00b", "\ud800", "a\nb"])
    def test_a_text_that_a_store_would_refuse_is_hashed(self, task, value):
        stored = stored_key("singleton", "probe", key(task, "order_id", value))

        assert stored.isprintable()
        assert "~" in stored
        assert stored != stored_key("singleton", "probe", key(task, "order_id", value[:-1] + "c"))

    @pytest.mark.parametrize("spec", ["order_id", "{order_id}-{kind}", "*"])
    def test_the_way_of_calling_does_not_matter(self, task, spec):
        assert (
            key(task, spec, 7)
            == key(task, spec, order_id=7)
            == key(task, spec, 7, "full")
            == key(task, spec, kind="full", order_id=7)
        )

    @pytest.mark.parametrize("bind", [True, False])
    def test_a_bound_task_has_the_same_key(self, declare, bind):
        def bound(self, order_id):
            """Takes itself first."""

        def plain(order_id):
            """Does not."""

        task = declare(bound if bind else plain, bind=bind)

        assert key(task, "order_id", 7) == key(task, "order_id", order_id=7) == "7"

    def test_arguments_that_are_not_named_count_too(self, declare):
        task = declare(take_anything)

        assert key(task, "tenant", 1, tenant="north") == "north"
        assert key(task, "*", 1, tenant="north") != key(task, "*", 2, tenant="north")
        assert key(task, "*", 1, tenant="north") != key(task, "*", 1, tenant="south")

    def test_a_wrong_call_is_the_error_of_the_task(self, task):
        with pytest.raises(TypeError, match="order_id"):
            key(task, "kind")

    @pytest.mark.parametrize("nothing", [None, ""])
    @pytest.mark.parametrize("spec", ["kind", "{order_id}-{kind}", lambda kind: kind])
    def test_nothing_is_no_key(self, task, spec, nothing):
        with pytest.raises(ArgumentError, match=r"'outcome.probe' has no key for this call: "):
            key(task, spec, 7, nothing)

    def test_a_function_that_fails_is_named(self, task):
        def of_city(address):
            return address["city"]

        with pytest.raises(ArgumentError, match=r"of_city failed with TypeError\. Correct the key"):
            key(task, of_city, 7)

    @given(
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers()
            | st.text(st.characters(codec="utf-8"))
            | st.floats(allow_nan=False, allow_infinity=False)
            | st.dates()
            | st.uuids()
            | st.decimals(allow_nan=False, allow_infinity=False)
            | st.datetimes(timezones=st.just(datetime.UTC)),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=5), inner, max_size=3)
            ),
            max_leaves=5,
        )
    )
    def test_the_worker_has_the_key_of_the_publisher(self, value):
        for spec in ("order_id", "*", "{order_id}"):
            before = _key_or_error(FREE, spec, value)
            after = _key_or_error(FREE, spec, loads(dumps(value)))
            assert before == after

    def test_a_tuple_has_the_key_of_the_list_that_arrives(self, task):
        assert key(task, "order_id", (1, (2,))) == key(task, "order_id", [1, [2]])

    @pytest.mark.parametrize(
        "value",
        [DAY, uuid.UUID(int=7), decimal.Decimal("1.50"), datetime.datetime(2026, 3, 1, tzinfo=datetime.UTC)],
    )
    def test_a_value_of_its_own_type_is_its_text(self, task, value):
        assert key(task, "order_id", value) == str(value)


class _Free:
    """A task without an application, for many examples."""

    name = "free"
    redact = ()
    run = staticmethod(charge)


FREE = _Free()


def _key_or_error(task, spec, *values):
    try:
        return key(task, spec, *values)
    except ArgumentError:
        return None


class TestLongAndMarkedKeys:
    def test_a_long_key_is_cut_and_still_differs(self, task):
        one, other = key(task, "kind", 7, "x" * 5000), key(task, "kind", 7, "x" * 5001)

        assert one != other
        assert one.startswith("x" * 60)
        assert len(one) <= 120

    def test_a_stored_key_fits_its_column(self):
        stored = stored_key("singleton", "a" * 250, "b" * 120)

        assert len(stored) <= 255
        assert stored_key("singleton", "orders.charge", "7") == "singleton:orders.charge:7"
        assert stored != stored_key("singleton", "a" * 250, "c" * 120)

    @pytest.mark.parametrize(
        "spec",
        ["card", "{order_id}-{card}", "*", lambda card: card, lambda **arguments: arguments["card"]],
        ids=["name", "template", "all", "function", "open function"],
    )
    @pytest.mark.parametrize("marked", [("card",), ("*",), ["card", "kind"]])
    def test_a_marked_argument_does_not_show(self, declare, spec, marked):
        task = declare(charge, redact=marked)

        one, other = key(task, spec, 7, card=CARD), key(task, spec, 7, card=CARD[:-1] + "2")

        assert CARD not in one
        assert one.startswith("hashed~")
        assert one == key(task, spec, 7, card=CARD) != other

    def test_the_hash_of_a_marked_argument_needs_the_secret_key(self, declare, settings):
        task = declare(charge, redact=("card",))
        before = key(task, "card", 7, card=CARD)

        settings.SECRET_KEY = "another one"

        assert key(task, "card", 7, card=CARD) != before

    @pytest.mark.parametrize("fallbacks", [[], ["the oldest one"]])
    def test_a_new_secret_key_in_front_leaves_the_hash_as_it_is(self, declare, settings, fallbacks):
        task = declare(charge, redact=("card",))
        settings.SECRET_KEY_FALLBACKS = fallbacks
        before = key(task, "card", 7, card=CARD)

        settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY, *fallbacks]
        settings.SECRET_KEY = "another one"

        assert key(task, "card", 7, card=CARD) == before

    def test_it_is_made_with_the_oldest_of_the_keys(self, make_app, settings):
        def key_with(*keys):
            app = make_app(ENCRYPTION_KEYS=keys)
            app.task(name="outcome.probe", redact=("card",))(charge)
            return key(app.tasks["outcome.probe"], "card", 7, card=CARD)

        old, new = "the old key, long enough", "the new key, long enough"

        assert key_with() == key_with(settings.SECRET_KEY) == key_with(old, settings.SECRET_KEY)
        assert key_with(old) == key_with(new, old) != key_with(new)

    def test_an_argument_that_is_not_marked_shows(self, declare):
        task = declare(charge, redact=("card",))

        assert key(task, "order_id", 7, card=CARD) == "7"
        assert key(task, lambda order_id: order_id, 7, card=CARD) == "7"

    def test_an_error_shows_no_marked_argument(self, declare):
        def of_card(card):
            raise ValueError(card)

        with pytest.raises(ArgumentError) as raised:
            key(declare(charge, redact=("card",)), of_card, 7, card=CARD)

        assert CARD not in str(raised.value)
        assert raised.value.__cause__ is None


class TestTheDeclaration:
    @pytest.mark.parametrize(
        "spec",
        ["order_id", "{order_id}-{kind}", "{address[city]}", "{day:%Y-%m}", "", "*", lambda order_id: 1],
    )
    def test_what_can_work_is_accepted(self, task, spec):
        check_key_spec(type(task), "singleton_key", spec)
        check_key_spec(task, "singleton_key", spec)

    def test_a_bound_task_s_self_is_no_argument(self, declare):
        def bound(self, order_id):
            """Takes itself first."""

        task = declare(bound, bind=True)

        check_key_spec(type(task), "singleton_key", "order_id")
        with pytest.raises(TaskDefinitionError, match=r"no argument 'self'\. Its arguments are: order_id\."):
            check_key_spec(type(task), "singleton_key", "self")

    def test_a_task_that_takes_anything_takes_any_name(self, declare):
        check_key_spec(type(declare(take_anything)), "singleton_key", "{tenant}")

    @pytest.mark.parametrize(
        ("spec", "problem"),
        [
            ("oder_id", r"singleton_key='oder_id', but .* no argument 'oder_id'\. Did you mean 'order_id'\?"),
            ("{oder_id}", r"has no argument 'oder_id'\. Did you mean 'order_id'\?"),
            (lambda oder_id: 1, r"has no argument 'oder_id'\. Did you mean 'order_id'\?"),
            ("{}", r"in which \{\} is no argument\. Name one, as in '\{order_id\}'"),
            ("{0}", r"in which \{0\} is no argument"),
            ("{order_id.pk}", r"in which \{order_id\.pk\} is no argument"),
            ("{order_id", r"which is no template: expected '}' before end of string"),
            ("order_id}", r"which is no template"),
            ("{order_id}{kind}", r"in which nothing separates two fields\. Write a character between them"),
            ("{{order_id}}", r"which names no argument\. Write '' for one key for all calls\."),
            (lambda *values: 1, r"takes \*values by its place"),
            (lambda order_id, /: 1, r"takes order_id by its place"),
            (7, r"has singleton_key=7\. Give the name of an argument"),
            (None, r"has singleton_key=None\. Give the name of an argument"),
        ],
    )  # fmt: skip
    def test_what_cannot_is_refused_with_what_to_write(self, task, spec, problem):
        with pytest.raises(TaskDefinitionError, match=problem):
            check_key_spec(type(task), "singleton_key", spec)


@pytest.mark.parametrize("spec", ["{order_id}-{kind}", "{order_id}-{address[city]}-{day:%Y}-{kind:s}"])
@pytest.mark.parametrize("empty", [None, ""])
def test_the_field_of_a_template_that_is_empty_is_named(task, spec, empty):
    call = {"day": DAY, "address": {"city": "Oslo"}}

    with pytest.raises(ArgumentError) as refused:
        key(task, "{order_id}-{address[city]}", 7, address={"city": empty})
    with pytest.raises(ArgumentError) as refused_first:
        key(task, spec, empty, **call)

    assert str(refused.value) == (
        f"Task {task.name!r} has no key for this call: 'address[city]' gives None or an empty text. "
        "Pass a value: without one, unrelated calls would count as the same."
    )
    assert "'order_id' gives None or an empty text" in str(refused_first.value)
