"""`manage.py deadletters` in the tests' own process."""

from __future__ import annotations

import io
import json
from typing import Any

from django.core.management import call_command


def deadletters(*words: object) -> str:
    """Run the command, and return what it writes."""
    out = io.StringIO()
    call_command("deadletters", *map(str, words), stdout=out, stderr=out)
    return out.getvalue()


def as_json(*words: object) -> Any:
    """Run the command for machines, and return its value."""
    return json.loads(deadletters(*words, "--json"))
