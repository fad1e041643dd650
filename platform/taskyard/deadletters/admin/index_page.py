"""The number of open letters on the front page of the admin: seen by whoever comes for something else."""

from __future__ import annotations

from django.contrib.admin import AdminSite

TEMPLATE = "deadletters/index.html"


def announce_open_letters(site: AdminSite) -> None:
    """Have the front page show the number, unless the project has a front page of its own.

    The page of ours extends `admin/index.html`, so a project that overrides that template keeps it.
    """
    if site.index_template is None:
        site.index_template = TEMPLATE
