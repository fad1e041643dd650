"""The table of dead letters."""

from __future__ import annotations

from django.db import models

from taskyard.deadletters.models.fault_count import FINGERPRINT_LENGTH


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
        WRONG_SIGNATURE = "wrong_signature", "arguments that the task does not take"

    class Status(models.TextChoices):
        OPEN = "open", "open"
        # Claimed by a replay whose message is not known to be on the broker yet.
        REPLAYING = "replaying", "being replayed"
        REPLAYED = "replayed", "replayed"
        DISCARDED = "discarded", "discarded"

    status = models.CharField(max_length=10, choices=Status.choices, default=Status.OPEN)
    task_name = models.CharField(max_length=255, blank=True)
    task_id = models.CharField(max_length=255, blank=True, db_index=True)
    reason = models.CharField(max_length=32, choices=Reason.choices)
    queue = models.CharField(max_length=255, blank=True)
    priority = models.SmallIntegerField(null=True, blank=True)
    args = models.JSONField(default=list, help_text="Marked arguments are masked.")
    kwargs = models.JSONField(default=dict, help_text="Marked arguments are masked.")
    sealed = models.TextField(blank=True, help_text="Encrypted: the true arguments, where some are marked.")
    canvas = models.JSONField(
        default=dict, help_text="What follows the task: callbacks, chain, chord, group."
    )
    headers = models.JSONField(default=dict)
    correlation_id = models.CharField(max_length=255, blank=True, db_index=True)
    retries = models.PositiveIntegerField(default=0)
    worker = models.CharField(max_length=255, blank=True)
    attempts = models.JSONField(default=list, help_text="Every run: number, at, worker, error, traceback.")
    error = models.TextField(blank=True)
    error_type = models.CharField(max_length=255, blank=True)
    error_place = models.CharField(max_length=255, blank=True)
    traceback = models.TextField(blank=True)
    # The first 64 bits of the SHA-256 of task, reason, error type and place, in hex: people type it. The same
    # fault, whatever its text says.
    fingerprint = models.CharField(max_length=FINGERPRINT_LENGTH, blank=True)
    sealed_raw = models.TextField(
        blank=True, help_text="Encrypted: the message as it came, where no task was run."
    )
    created_at = models.DateTimeField(auto_now_add=True)
    # While it is being replayed: when that began, and who asked for it.
    resolved_at = models.DateTimeField(null=True, blank=True)
    resolved_by = models.CharField(max_length=150, blank=True)
    discard_reason = models.CharField(max_length=255, blank=True)
    # The run that a replay has started, and the dead letter whose replay ended as this one.
    replay_task_id = models.CharField(max_length=255, blank=True, db_index=True)
    replay_sealed = models.TextField(
        blank=True, help_text="Encrypted: the arguments of the replay, where they were edited."
    )
    replay_of = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.SET_NULL, related_name="replays", db_index=True
    )

    class Meta:
        ordering = ["-id"]
        permissions = [
            ("replay_deadletter", "Can replay dead letters"),
            ("discard_deadletter", "Can discard dead letters"),
            ("reveal_deadletter", "Can see encrypted arguments and messages"),
        ]
        indexes = [
            models.Index(fields=["status", "-id"], name="deadletter_status"),
            models.Index(fields=["status", "fingerprint", "-id"], name="deadletter_fingerprint"),
            models.Index(fields=["status", "queue", "-id"], name="deadletter_queue"),
            models.Index(fields=["status", "task_name", "-id"], name="deadletter_task"),
            models.Index(fields=["status", "reason", "-id"], name="deadletter_reason"),
            # without it, "none with this reason on this queue" is found out by reading every row
            models.Index(fields=["status", "reason", "queue", "-id"], name="deadletter_reason_queue"),
            # groups and counts of a time without reading the rows themselves
            models.Index(
                fields=["status", "created_at", "fingerprint", "queue", "id"], name="deadletter_time"
            ),
            models.Index(fields=["resolved_at"], name="deadletter_resolved"),
        ]
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
