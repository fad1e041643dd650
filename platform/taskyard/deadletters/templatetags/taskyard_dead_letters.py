"""Filters of the dead letter pages, and the notice on the front page of the admin."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from taskyard import wording
from taskyard.clock import SYSTEM_CLOCK
from taskyard.deadletters.admin.permissions import may_view
from taskyard.deadletters.filters import DeadLetterFilter
from taskyard.deadletters.groups import count_by
from taskyard.deadletters.models import DeadLetter

register = template.Library()


@register.simple_tag(takes_context=True)
def moment(context: Any, value: datetime | None, zone: str = "") -> SafeString | str:
    """Show a time in UTC, with how long ago it was; `zone` where no heading says UTC."""
    if value is None:
        return ""
    return format_html(
        '<time datetime="{}">{}{}</time> <span class="ty-quiet ty-nowrap">{}</span>',
        value.isoformat(timespec="seconds"),
        wording.utc(value),
        zone and f" {zone}",
        wording.ago(value, context["now"]),
    )


@register.filter
def utc(value: datetime) -> str:
    return wording.utc(value)


@register.filter
def first_line(text: str, limit: int) -> str:
    return wording.shorten(text, limit)


@register.filter
def grouped(value: int) -> str:
    """Write 12000 as 12,000, in every language alike."""
    return f"{value:,}"


@register.filter
def runs(letter: Any) -> str:
    """Show how often it was run; the list does not read the runs themselves."""
    return f"{letter.retries + 1:,}"


@register.simple_tag(takes_context=True)
def open_letters(context: Any) -> dict[str, str] | None:
    """Return how many letters are open and the newest; None if there are none, or not for this user."""
    if not may_view(context["request"]):
        return None
    newest = DeadLetter.objects.filter(status=DeadLetter.Status.OPEN).order_by("-pk").first()
    if newest is None:
        return None
    by_queue = count_by(DeadLetterFilter(), "queue")
    return {
        "text": wording.counted(sum(by_queue.values()), "open dead letter", "open dead letters"),
        "queues": ", ".join(f"{queue or 'no queue'} {count:,}" for queue, count in by_queue.items()),
        "ago": wording.ago(newest.created_at, SYSTEM_CLOCK.now()),
        "newest": newest.task_name or str(newest.get_reason_display()),
    }
