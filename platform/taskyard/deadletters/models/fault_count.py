"""The table of faults: how many dead letters each has, so that no page has to count a million rows."""

from __future__ import annotations

from django.db import models

FINGERPRINT_LENGTH = 16


class FaultCount(models.Model):
    """The dead letters of one fault on one queue, by status; kept in the transaction of each change.

    Several rows (shards) of the same fault and queue add up, so that the many workers of an incident do not
    all wait for one row. One alone may be below 0.
    """

    fingerprint = models.CharField(max_length=FINGERPRINT_LENGTH)
    queue = models.CharField(max_length=255, blank=True)
    shard = models.SmallIntegerField(default=0)
    task_name = models.CharField(max_length=255, blank=True)
    reason = models.CharField(max_length=32)
    error_type = models.CharField(max_length=255, blank=True)
    error_place = models.CharField(max_length=255, blank=True)
    open = models.IntegerField(default=0)
    replaying = models.IntegerField(default=0)
    replayed = models.IntegerField(default=0)
    discarded = models.IntegerField(default=0)
    first_seen = models.DateTimeField()
    last_seen = models.DateTimeField()
    last_id = models.BigIntegerField(help_text="Its newest dead letter, which may be purged by now.")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["fingerprint", "queue", "shard"], name="deadletter_fault_once")
        ]

    def __str__(self) -> str:
        return f"{self.fingerprint} on {self.queue or 'no queue'}"
