"""A page that publishes, as every web page that uses the kit does."""

from __future__ import annotations

from django.http import HttpRequest, JsonResponse

from taskyard.errors import PublishError
from tests.probe_app import tasks


def publish(request: HttpRequest) -> JsonResponse:
    """Publish the task named in the query; 503 if the broker does not take it."""
    task = getattr(tasks, request.GET["task"])
    try:
        result = task.delay(*request.GET.getlist("argument"))
    except PublishError as error:
        return JsonResponse({"error": str(error)}, status=503)
    return JsonResponse({"task_id": result.id})
