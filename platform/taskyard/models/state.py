"""The tables of the database state store, and of effects that happen once."""

from __future__ import annotations

from django.db import models

KEY_LENGTH = 255


class Claim(models.Model):
    """One claim of the database state store; see `taskyard.state.interface`.

    Rows stay for a while after their end, and are deleted by the store itself.
    """

    class State(models.TextChoices):
        FREE = "free"
        HELD = "held"
        DONE = "done"

    key = models.CharField(max_length=KEY_LENGTH, primary_key=True)
    state = models.CharField(max_length=8, choices=State.choices, default=State.FREE)
    owner = models.CharField(max_length=KEY_LENGTH, blank=True)
    fence = models.BigIntegerField(default=0)
    # JSON as text: jsonb refuses some texts that JSON has, and changes some numbers
    holder = models.TextField(default="{}")
    since = models.DateTimeField(null=True)
    expires_at = models.DateTimeField(null=True, db_index=True)
    duplicates = models.PositiveIntegerField(default=0)
    result = models.TextField(null=True)

    def __str__(self) -> str:
        return f"{self.key} ({self.state})"


class Register(models.Model):
    """The latest value of something, of the database state store."""

    key = models.CharField(max_length=KEY_LENGTH, primary_key=True)
    value = models.TextField()
    # what it held before this value, for a writer whose answer was lost
    before = models.TextField(null=True)
    expires_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return f"{self.key}: {self.value}"


class Effect(models.Model):
    """The record that an effect has happened, committed with the effect; see `taskyard.effect_once`."""

    key = models.CharField(max_length=KEY_LENGTH, primary_key=True)
    task_id = models.CharField(max_length=KEY_LENGTH, blank=True)
    at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return self.key
