"""Gives each web request a correlation id that its tasks carry."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from taskyard.correlation import correlated

HEADER = "X-Request-ID"
# What a proxy may send: no spaces, quotes or line ends that could forge a log line.
_ACCEPTED = re.compile(r"[A-Za-z0-9._\-]{1,128}")


class CorrelationMiddleware:
    """Takes the request id of the proxy (`X-Request-ID`) or makes one, and returns it in the response."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        given = request.headers.get(HEADER, "")
        correlation_id = given if _ACCEPTED.fullmatch(given) else uuid.uuid4().hex
        with correlated(correlation_id):
            response = self.get_response(request)
        response[HEADER] = correlation_id
        return response
