"""What the pages of claims need of Python."""

from __future__ import annotations

from django import template

from taskyard.operations.admin.claim_pages import release_url

register = template.Library()
register.simple_tag(release_url, name="release_url")
