"""Activities as they were recorded, and the timeline that they become."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils import timezone


class Timeline(models.Model):
    """One user's timeline. Its row is the lock: whoever records or applies holds it."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="timeline")
    last_recorded = models.PositiveBigIntegerField(default=0)
    last_applied = models.PositiveBigIntegerField(default=0)

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=models.Q(last_applied__lte=models.F("last_recorded")),
                name="timeline_applied_is_recorded",
            ),
        )

    def __str__(self) -> str:
        return f"timeline of user {self.user_id}"


class Activity(models.Model):
    """Something a user did, with its place in the order of that user's activities."""

    class Kind(models.TextChoices):
        JOINED = "joined"
        POSTED = "posted"
        COMMENTED = "commented"
        FOLLOWED = "followed"

    timeline = models.ForeignKey(Timeline, on_delete=models.CASCADE, related_name="activities")
    sequence = models.PositiveBigIntegerField()
    kind = models.CharField(max_length=20, choices=Kind)
    subject = models.CharField(max_length=200, blank=True)
    recorded_at = models.DateTimeField(default=timezone.now)

    class Meta:
        verbose_name_plural = "activities"
        constraints = (
            models.UniqueConstraint(
                fields=("timeline", "sequence"), name="timeline_activity_sequence_is_unique"
            ),
        )

    def __str__(self) -> str:
        return f"activity {self.sequence} in timeline {self.timeline_id}"


class Entry(models.Model):
    """A line of a timeline: the effect of one activity."""

    timeline = models.ForeignKey(Timeline, on_delete=models.CASCADE, related_name="entries")
    activity = models.OneToOneField(Activity, on_delete=models.CASCADE, related_name="entry")
    position = models.PositiveBigIntegerField()
    text = models.CharField(max_length=250)

    class Meta:
        verbose_name_plural = "entries"
        ordering = ("timeline", "position")
        constraints = (
            models.UniqueConstraint(
                fields=("timeline", "position"), name="timeline_entry_position_is_unique"
            ),
        )

    def __str__(self) -> str:
        return self.text
