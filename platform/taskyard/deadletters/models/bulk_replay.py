"""The table of bulk replays: a filter, a sample first, then the rest at a rate."""

from __future__ import annotations

from django.db import models


class BulkReplay(models.Model):
    """One replay of everything that a filter finds; worked on by a task, looked at by a person."""

    class State(models.TextChoices):
        SAMPLING = "sampling", "replaying the sample"
        WAITING = "waiting", "the sample is sent: look, then go on or stop"
        RUNNING = "running", "replaying the rest"
        DONE = "done", "done"
        STOPPED = "stopped", "stopped"

    state = models.CharField(max_length=10, choices=State.choices, default=State.SAMPLING)
    filters = models.JSONField(default=dict, help_text="As in DeadLetterFilter.as_dict().")
    # Letters that come later are not part of it: a fault that goes on would never end.
    up_to_id = models.BigIntegerField()
    last_id = models.BigIntegerField(default=0, help_text="Letters up to here are dealt with.")
    current_id = models.BigIntegerField(default=0, help_text="The letter that is dealt with, or was last.")
    sample = models.PositiveIntegerField(default=5)
    rate_per_second = models.FloatField(default=10)
    total = models.PositiveIntegerField(default=0)
    replayed = models.PositiveIntegerField(default=0)
    failed = models.PositiveIntegerField(default=0, help_text="Could not be replayed; they stay open.")
    last_error = models.TextField(blank=True)
    # It is worked on in slices, each started by a message with the next number: of a message that comes
    # twice, one is stale.
    slice_number = models.PositiveIntegerField(default=0)
    is_working = models.BooleanField(default=False, help_text="The last slice that began has not ended.")
    worked_at = models.DateTimeField(auto_now_add=True, help_text="When the last letter was dealt with.")
    started_by = models.CharField(max_length=150)
    started_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"bulk replay {self.pk} ({self.get_state_display()})"
