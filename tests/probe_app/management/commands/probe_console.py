"""`manage.py probe_console`: does what a test asks for, one JSON line in and one out for each."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from django.core.management.base import BaseCommand

from tests.probe_app import actions


class Command(BaseCommand):
    """Reads orders from standard input until it ends."""

    def handle(self, *_: Any, **__: Any) -> None:
        for line in sys.stdin:
            order = json.loads(line)
            answer = _do(getattr(actions, order["action"]), order["arguments"])
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()


def _do(action: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    started = time.monotonic()
    value, error, message = None, [], ""
    try:
        value = action(**arguments)
    except Exception as raised:
        error, message = [kind.__name__ for kind in type(raised).__mro__], str(raised)
    return {"value": value, "error": error, "message": message, "seconds": time.monotonic() - started}
