"""The short form of a fingerprint, as the pages show it and people type it."""

from __future__ import annotations

import re

from taskyard.deadletters.models import FaultCount
from taskyard.deadletters.models.fault_count import FINGERPRINT_LENGTH
from taskyard.errors import DeadLetterError

SHORTEST = 6
_NAMED = 5
_HEX = re.compile(r"[0-9a-f]+")


def full_fingerprint(text: str) -> str:
    """Return the fingerprint that begins so, of the faults that there are.

    Args:
        text: a whole fingerprint, which is returned as it is, or its first digits: at least SHORTEST.

    Raises:
        DeadLetterError: it is no beginning of a fingerprint, of none that there is, or of several.
    """
    start = text.strip().lower()
    if len(start) == FINGERPRINT_LENGTH and _HEX.fullmatch(start):
        return start
    if not (SHORTEST <= len(start) < FINGERPRINT_LENGTH and _HEX.fullmatch(start)):
        raise DeadLetterError(
            f"The fingerprint {text!r} cannot be looked for. Give its {FINGERPRINT_LENGTH} hex digits, or at "
            f"least the first {SHORTEST}."
        )
    found = FaultCount.objects.filter(fingerprint__startswith=start).order_by("fingerprint")
    names = list(found.values_list("fingerprint", flat=True).distinct()[: _NAMED + 1])
    if not names:
        raise DeadLetterError(
            f"No fault has a fingerprint that begins with {start!r}. `manage.py deadletters groups` and the "
            "page Faults list them."
        )
    if len(names) > 1:
        more = ", ..." if len(names) > _NAMED else ""
        raise DeadLetterError(
            f"The fingerprint {start!r} is the beginning of several: {', '.join(names[:_NAMED])}{more}. "
            "Give more digits."
        )
    return names[0]
