"""URLs of the tests' site."""

from django.contrib import admin
from django.urls import path

from tests.probe_app import views

urlpatterns = [path("publish/", views.publish), path("admin/", admin.site.urls)]
