"""An operation whose answer is lost has happened; it is repeated by itself, and gives the same answer."""

from urllib.parse import urlsplit

import pytest

from tests.support.answer_relay import AnswerRelay
from tests.support.state_stores import StoreSpec, database

# SQLite has no connection that could break.
pytestmark = [
    pytest.mark.integration,
    pytest.mark.parametrize("spec", ["redis", "valkey", "postgresql"], indirect=True),
]


@pytest.fixture
def relay(spec):
    with AnswerRelay(urlsplit(spec.url).port) as running:
        yield running


@pytest.fixture
def behind(spec, relay, django_db_blocker):
    """The same store, over the relay."""
    port = urlsplit(spec.url).port
    where = StoreSpec(spec.kind, spec.url.replace(f":{port}/", f":{relay.port}/"))
    if not where.is_database:
        yield where.make()
        return
    with database(where):
        yield where.make()


@pytest.fixture
def lose(relay, behind):
    """Do something whose answer is lost, and return the answer all the same."""

    def lose(operation):
        # over a connection that stands: the answer to the login is not the one to lose
        behind.ping()
        relay.lose_next_answer()
        answer = operation(behind)
        assert relay.lost == 1
        return answer

    return lose


def take(store, key, owner="a"):
    return store.acquire(key, owner=owner, holder={}, lease_seconds=60)


def test_a_claim_is_granted_once_with_one_fence(lose, store, key):
    attempt = lose(lambda behind: take(behind, key))

    assert attempt.is_granted
    assert store.read(key).fence == attempt.claim.fence
    assert not take(store, key, "b").is_granted


@pytest.mark.parametrize(
    "operation",
    [
        lambda store, key: store.renew(key, owner="a", lease_seconds=60),
        lambda store, key: store.complete(key, owner="a", result=1, remember_seconds=60),
        lambda store, key: store.release(key, owner="a"),
    ],
    ids=["renew", "complete", "release"],
)
def test_an_owner_is_told_that_it_has_happened(lose, store, key, operation):
    take(store, key)

    assert lose(lambda behind: operation(behind, key)) is True


def test_a_register_still_says_what_was_before(lose, store, key):
    store.put_latest(key, "one", remember_seconds=60)

    assert lose(lambda behind: behind.put_latest(key, "two", remember_seconds=60)) == "one"
