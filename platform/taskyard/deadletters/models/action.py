"""The table of what people (and schedules) have done with dead letters."""

from __future__ import annotations

from django.db import models

from taskyard.deadletters.models.letter import DeadLetter


class DeadLetterAction(models.Model):
    """One action on one dead letter: who, when, what. Written in the transaction of the action."""

    class Kind(models.TextChoices):
        REPLAY = "replay", "replayed"
        EDIT_AND_REPLAY = "edit_and_replay", "edited and replayed"
        DISCARD = "discard", "discarded"
        REOPEN = "reopen", "opened again"
        REVEAL = "reveal", "encrypted arguments shown"

    letter = models.ForeignKey(DeadLetter, on_delete=models.CASCADE, related_name="actions")
    kind = models.CharField(max_length=16, choices=Kind.choices)
    actor = models.CharField(max_length=150, help_text="The user's name; for commands, user@host.")
    at = models.DateTimeField(auto_now_add=True)
    detail = models.JSONField(default=dict, help_text="Reason, new task id, which arguments were edited, ...")

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.get_kind_display()} by {self.actor}"
