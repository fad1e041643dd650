"""What the list page reads from the table: never more than a bounded part of it, however large it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from typing import Any

from django.db.models import Q, QuerySet
from django.db.models.functions import Left

from taskyard.deadletters.filters import DeadLetterFilter
from taskyard.deadletters.groups import count_letters
from taskyard.deadletters.models import DeadLetter

PER_PAGE = 50
# Beyond this a person does not care, and counting a million rows at each look would be slow.
COUNT_CAP = 10_000
# A part of a text is looked for in so many of the newest rows that the rest of the filter leaves.
SEARCH_CAP = 5_000
SEARCH_IS_CUT = (
    f"The text was looked for in the newest {SEARCH_CAP:,} letters only, of those that the rest of the "
    "filter leaves. Narrow the filter, for instance by task or time, to look further back."
)
ERROR_CHARACTERS = 300
_LISTED = ("created_at", "task_name", "queue", "reason", "status", "retries")


@dataclass(frozen=True, slots=True)
class Listing:
    """One page of letters, newest first.

    Args:
        letters: at most PER_PAGE, with `short_error` in place of the whole error.
        is_more: there are older ones.
        count: how many there are in all pages; where they have to be counted one by one, up to COUNT_CAP + 1.
        found_by_id: the search text is the id of a task or a request: nothing else counts.
        is_cut: the text was not looked for in all rows.
    """

    letters: Sequence[DeadLetter]
    is_more: bool
    count: int
    found_by_id: bool = False
    is_cut: bool = False


def list_letters(chosen: DeadLetterFilter, *, before: int | None = None) -> Listing:
    """Return a page of what the filter leaves.

    Args:
        before: the last letter of the page before; None for the newest page.
    """
    found_by_id, is_cut = False, False
    letters = _matching(chosen)
    if chosen.search is not None:
        by_id = _by_id(chosen.search)
        found_by_id = by_id.exists()
        if found_by_id:
            letters = by_id
        else:
            floor = search_floor(chosen)
            is_cut = floor is not None
            letters = letters if floor is None else letters.filter(pk__gt=floor[0])
    count = count_letters(chosen) if chosen.is_counted else letters.order_by()[: COUNT_CAP + 1].count()
    page = letters if before is None else letters.filter(pk__lt=before)
    rows = _newest(page, is_of_all=chosen.status is None)
    return Listing(rows[:PER_PAGE], len(rows) > PER_PAGE, count, found_by_id, is_cut)


def written_count(count: int, one: str, many: str) -> str:
    """Return `1 letter`, `20 letters`, or `more than 10,000 letters` beyond what is counted."""
    if count > COUNT_CAP:
        return f"more than {COUNT_CAP:,} {many}"
    return f"{count:,} {one if count == 1 else many}"


def _matching(chosen: DeadLetterFilter) -> QuerySet[DeadLetter]:
    return chosen.apply(DeadLetter.objects.order_by("-pk"), newest_first=True)


def _newest(letters: QuerySet[DeadLetter], *, is_of_all: bool) -> list[Any]:
    listed = letters.only(*_LISTED).annotate(short_error=Left("error", ERROR_CHARACTERS))
    if not is_of_all:
        return list(listed[: PER_PAGE + 1])
    # The indexes begin with the status. With one query for all of them, PostgreSQL would look for a rare
    # fault in the whole table, from its newest row on.
    pages = (listed.filter(status=status)[: PER_PAGE + 1] for status in DeadLetter.Status.values)
    return sorted(chain.from_iterable(pages), key=lambda row: row.pk, reverse=True)[: PER_PAGE + 1]


def _by_id(text: str) -> QuerySet[DeadLetter]:
    # Not the letter's own number: it would hide the letters with that number among their arguments.
    is_id = Q(task_id=text) | Q(correlation_id=text) | Q(replay_task_id=text)
    return DeadLetter.objects.filter(is_id).order_by("-pk")


def search_floor(chosen: DeadLetterFilter) -> tuple[int, datetime] | None:
    """Return down to which letter a text is looked for, and when that came; None: in all of them."""
    rest = _matching(replace(chosen, search=None))
    return rest.values_list("pk", "created_at")[SEARCH_CAP : SEARCH_CAP + 1].first()
