"""The front page of the admin says how many letters are open."""

from __future__ import annotations

import pytest
from django.contrib.admin import AdminSite
from django.urls import reverse

from taskyard.deadletters.admin import DeadLetterAdmin
from taskyard.deadletters.models import DeadLetter
from tests.unit.dead_letter_pages.conftest import address, text_of


@pytest.fixture
def front():
    return reverse("admin:index")


def test_it_says_how_many_where_and_which_is_the_newest(reader, make_letter, front):
    for queue in ("critical", "high", "high"):
        make_letter(queue=queue)
    make_letter(task_name="shop.ship", queue="high")
    make_letter(status="replayed", task_name="shop.not_open")

    response = reader.get(front)

    assert "4 open dead letters (high 3, critical 1) the newest just now: shop.ship" in text_of(response)
    assert address("deadletter_faults") in response.content.decode()


def test_it_is_silent_without_open_letters(reader, make_letter, front):
    make_letter(status="discarded")

    assert "open dead letter" not in text_of(reader.get(front))


def test_it_is_silent_for_those_who_may_not_see_them(log_in, letter, front):
    assert "open dead letter" not in text_of(log_in("bert").get(front))


def test_a_site_with_a_front_page_of_its_own_keeps_it():
    site, plain = AdminSite("other"), AdminSite("plain")
    site.index_template = "shop/admin.html"

    for admin_site in (site, plain):
        DeadLetterAdmin(DeadLetter, admin_site)

    assert site.index_template == "shop/admin.html"
    assert plain.index_template == "deadletters/index.html"
