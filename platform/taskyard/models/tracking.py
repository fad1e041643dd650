"""What is known of tasks that report progress, resume, or are to be cancelled."""

from __future__ import annotations

from django.db import models


class TrackedTask(models.Model):
    """One task by its id: its progress, its checkpoint and its cancellation. Most tasks have no row."""

    class State(models.TextChoices):
        WAITING = "waiting"
        RUNNING = "running"
        SUCCEEDED = "succeeded"
        FAILED = "failed"
        CANCELLED = "cancelled"

    task_id = models.CharField(max_length=255, primary_key=True)
    task_name = models.CharField(max_length=255, blank=True)
    queue = models.CharField(max_length=255, blank=True)
    state = models.CharField(max_length=16, choices=State.choices, default=State.WAITING)
    done = models.BigIntegerField(null=True, blank=True)
    total = models.BigIntegerField(null=True, blank=True)
    note = models.CharField(max_length=255, blank=True)
    checkpoint = models.JSONField(null=True, blank=True)
    cancel_requested_at = models.DateTimeField(null=True, blank=True)
    cancelled_by = models.CharField(max_length=150, blank=True)
    cancel_reason = models.CharField(max_length=255, blank=True)
    worker = models.CharField(max_length=255, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    updated_at = models.DateTimeField(db_index=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-updated_at"]
        permissions = [("cancel_trackedtask", "Can cancel tasks, also those without a row")]

    def __str__(self) -> str:
        return f"{self.task_name or 'task'} {self.task_id}"
