"""What has been sent."""

from __future__ import annotations

from django.conf import settings
from django.db import models


class WelcomeMail(models.Model):
    """The record that a user's welcome mail has been handed to the mail server."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="welcome_mail"
    )
    sent_at = models.DateTimeField()

    class Meta:
        ordering = ("-sent_at",)

    def __str__(self) -> str:
        return f"welcome mail of user {self.user_id}"
