"""What the doctor says of a state store that is not the broker."""

import pytest

from taskyard.conf import build_settings
from taskyard.doctor.state_store import check_state_store

pytestmark = pytest.mark.integration


@pytest.fixture
def look(own_valkey):
    """Ask the doctor of a state store; returns the state and the detail of each finding."""

    def look(url=own_valkey.url):
        settings = build_settings({"BROKER_URL": "redis://127.0.0.1:1/0", "STATE_URL": url})
        return [(finding.state, finding.detail) for finding in check_state_store(settings)]

    return look


def test_a_good_one_answers(look, own_valkey):
    assert look() == [("ok", f"{own_valkey.url} answers")]


def test_one_that_is_the_broker_is_not_asked_again(look):
    assert look("redis://127.0.0.1:1/0") == [("ok", "on the broker")]


def test_one_that_is_away_is_an_error_without_its_password(look, own_valkey):
    own_valkey.kill()

    ((state, detail),) = look(own_valkey.url.replace("//", "//:s3cret@"))

    assert state == "error"
    assert "refused" in detail
    assert "s3cret" not in detail


def test_one_that_forgets_claims_is_found(look, own_valkey):
    with own_valkey.client() as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
        client.config_set("appendonly", "no")

    (evicts, forgets) = look()

    assert evicts[0] == "error"
    assert "maxmemory-policy is allkeys-lru: a full server deletes claims" in evicts[1]
    assert forgets[0] == "warning"
    assert "a restart forgets what is done" in forgets[1]


@pytest.mark.django_db
def test_the_database_is_asked_too(look):
    assert look("django-db") == [("ok", "in the database")]
