"""The table of dead letters."""

from __future__ import annotations

from django.db import models


class DeadLetter(models.Model):
    """One task that ended in a final failure, or a message that no worker could understand."""

    class Reason(models.TextChoices):
        RETRIES_EXHAUSTED = "retries_exhausted", "retries exhausted"
        AGE_EXCEEDED = "age_exceeded", "retried until its age limit"
        NOT_RETRYABLE = "not_retryable", "error that is not retried"
        TIME_LIMIT = "time_limit", "hard time limit"
        POISON = "poison", "its process died too often"
        SNOOZED_TOO_LONG = "snoozed_too_long", "snoozed too long"
        UNKNOWN_TASK = "unknown_task", "task name that no worker knows"
        INVALID = "invalid", "message that is not a task"
        UNDECODABLE = "undecodable", "message that cannot be decoded"
        REJECTED = "rejected", "rejected by the task"

    task_name = models.CharField(max_length=255, blank=True, db_index=True)
    task_id = models.CharField(max_length=255, blank=True, db_index=True)
    reason = models.CharField(max_length=32, choices=Reason.choices, db_index=True)
    queue = models.CharField(max_length=255, blank=True, db_index=True)
    priority = models.SmallIntegerField(null=True, blank=True)
    args = models.JSONField(default=list, help_text="Marked arguments are masked.")
    kwargs = models.JSONField(default=dict, help_text="Marked arguments are masked.")
    headers = models.JSONField(default=dict)
    correlation_id = models.CharField(max_length=255, blank=True, db_index=True)
    retries = models.PositiveIntegerField(default=0)
    error = models.TextField(blank=True)
    traceback = models.TextField(blank=True)
    raw = models.TextField(blank=True, help_text="The message as it came, where it could not be decoded.")
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            # The same end of the same run, reported twice (a redelivery between this row and the ack), is one
            # row.
            models.UniqueConstraint(
                fields=["task_id", "retries", "reason"],
                condition=~models.Q(task_id=""),
                name="deadletter_once",
            )
        ]

    def __str__(self) -> str:
        return f"{self.task_name or 'message'} ({self.get_reason_display()})"
