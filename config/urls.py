"""URLs of the project."""

from typing import Any

from django.conf import settings
from django.conf.urls.static import static
from django.contrib import admin
from django.urls import path
from django.views.generic import RedirectView

urlpatterns: list[Any] = [
    path("", RedirectView.as_view(url="/admin/", permanent=False)),
    path("admin/", admin.site.urls),
    # under DEBUG only: in production the files are the storage's business
    *static(settings.MEDIA_URL, document_root=settings.MEDIA_ROOT),
]
