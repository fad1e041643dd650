"""The table of image sets."""

from __future__ import annotations

from django.db import models


class ImageSet(models.Model):
    """One folder of pictures and how far its resizing has come."""

    class State(models.TextChoices):
        WAITING = "waiting", "waiting"
        RUNNING = "running", "running"
        DONE = "done", "done"
        CANCELLED = "cancelled", "cancelled"
        # Whether a retry or a person starts the next run, it goes on from the finished files.
        INTERRUPTED = "interrupted", "interrupted, the next run resumes"

    source_folder = models.CharField(max_length=1000, help_text="Absolute path; its subfolders are not read.")
    sizes = models.JSONField(help_text="Longest edges in pixels, for instance [1280, 320].")
    state = models.CharField(max_length=16, choices=State.choices, default=State.WAITING, db_index=True)
    total = models.PositiveIntegerField(default=0, help_text="Pictures in the folder.")
    done = models.PositiveIntegerField(default=0, help_text="Pictures dealt with, broken ones included.")
    broken = models.PositiveIntegerField(default=0, help_text="Pictures that could not be read.")
    report = models.JSONField(
        default=list, blank=True, help_text="The first broken pictures, with the reason."
    )
    cancel_requested = models.BooleanField(default=False)
    note = models.TextField(blank=True, help_text="Why the set stopped.")
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    progress_at = models.DateTimeField(null=True, blank=True, help_text="When the progress was last written.")
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"image set {self.pk} ({self.state}, {self.done} of {self.total})"
