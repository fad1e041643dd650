"""Django signals of the kit: what to connect to for alerts and for counting.

Receivers run in the process where it happened (a worker's pool process, mostly), in the path of the task:
they must be quick. What a receiver raises is logged and changes nothing.
"""

from __future__ import annotations

from django.dispatch import Signal

# A dead letter is stored. Arguments: letter (the DeadLetter row), failure (what was reported).
dead_letter_recorded = Signal()
# A run or a publish was left out because it repeats another one. Arguments: task, key, task_id, holder, what
# ("idempotent", "singleton" or "publish"), outcome ("skipped", "snoozed", "returned", "replaced"; "doubled"
# where a run was not left out and should have been: it had lost its claim).
duplicate_found = Signal()
# A circuit breaker has changed. Arguments: name, before, after, reason.
breaker_changed = Signal()
