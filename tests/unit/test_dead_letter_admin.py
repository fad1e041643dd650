"""The dead letter pages of the admin."""

from __future__ import annotations

import pytest

from taskyard.deadletters.models import DeadLetter


@pytest.fixture
def letter(db) -> DeadLetter:
    return DeadLetter.objects.create(
        task_name="orders.charge_order",
        task_id="id-1",
        reason="not_retryable",
        queue="critical",
        args=[194],
        error="CardDeclined: no",
        traceback='Traceback:\n    raise CardDeclined("<no>")\n    ^^^^^',
    )


def page(admin_client, path: str) -> str:
    response = admin_client.get(f"/admin/deadletters/deadletter/{path}")
    assert response.status_code == 200
    return response.content.decode()


def test_the_list_says_what_when_and_why(admin_client, letter) -> None:
    text = page(admin_client, "")

    for shown in ("orders.charge_order", "critical", "error that is not retried", "CardDeclined: no"):
        assert shown in text
    assert f"{letter.created_at:%Y-%m-%d %H:%M:%S}" in text


@pytest.mark.parametrize(("searched", "found"), [("194", 1), ("195", 0), ("id-1", 1)])
def test_it_is_found_by_argument_and_id(admin_client, letter, searched, found) -> None:
    response = admin_client.get(f"/admin/deadletters/deadletter/?q={searched}")

    assert response.context["cl"].result_count == found


def test_a_letter_shows_its_traceback_as_it_was_written_and_cannot_be_changed(admin_client, letter) -> None:
    text = page(admin_client, f"{letter.pk}/change/")

    assert "<pre>Traceback:\n    raise CardDeclined(&quot;&lt;no&gt;&quot;)\n    ^^^^^</pre>" in text
    assert 'name="_save"' not in text
