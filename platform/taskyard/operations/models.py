"""A name in the admin, with permissions, for what is in the state store."""

from __future__ import annotations

from django.db import models


class HeldClaim(models.Model):
    """A claim of the state store, which may be on Redis: it has pages and permissions, and no table."""

    class Meta:
        managed = False
        verbose_name = "claim"
        default_permissions = ("view",)
        permissions = [("release_heldclaim", "Can release claims")]
