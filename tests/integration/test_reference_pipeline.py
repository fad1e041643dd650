"""Reference tasks on a real worker and broker: chain, chord, the one failure callback, webhooks."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tasks.imports.load import write_products_csv
from tasks.webhooks.receiver import WebhookReceiver
from tests.support.sites import KEPT_VARIABLES
from tests.support.waiting import wait_until
from tests.support.workers import ROOT, WorkerProcess

pytestmark = pytest.mark.integration

ROWS = 5000
SECRET = "a secret of the tests"


class ReferenceProject:
    """The project with its reference tasks, on a database and a broker of its own."""

    def __init__(self, directory: Path, broker_url: str) -> None:
        self.environment = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ} | {
            "DJANGO_SETTINGS_MODULE": "config.settings",
            "DJANGO_DEBUG": "1",
            "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'platform'}",
            "TASKYARD_VAR_DIR": str(directory),
            "TASKYARD_BROKER_URL": broker_url,
            "TASKYARD_LOG_FORMAT": "json",
        }
        self._call([sys.executable, "manage.py", "migrate", "--verbosity=0"])
        self.worker = WorkerProcess(self.environment, ["--processes", "2"], log_file=directory / "worker.log")
        self.worker.wait_until_ready()

    def run(self, code: str, **values: Any) -> Any:
        """Run code in a process of the project, with these values as names, and return its `answer`."""
        script = "\n".join(
            [
                "import django, json, sys; django.setup()",
                "globals().update(json.loads(sys.argv[1])); answer = None",
                code,
                "print(json.dumps(answer))",
            ]
        )
        return json.loads(self._call([sys.executable, "-c", script, json.dumps(values)]))

    def wait_for_end(self, run_id: int, end: str) -> dict[str, Any]:
        """Return the import as soon as the worker says that it is "done" or "failed"."""
        self.worker.wait_for_log(f"import {end}", run_id=run_id, timeout_seconds=60)
        code = """if True:
            from tasks.imports.models import ImportRun
            fields = ("state", "total", "imported", "rejected", "report", "error")
            answer = ImportRun.objects.values(*fields).get(pk=run_id)
        """
        run: dict[str, Any] = self.run(code, run_id=run_id)
        assert run["state"] == end
        return run

    def manage(self, *command: str) -> str:
        """Run a command of the project, and return what it prints."""
        return self._call([sys.executable, "manage.py", *command])

    def close(self) -> None:
        self.worker.discard()

    def _call(self, command: list[str]) -> str:
        done = subprocess.run(
            command, cwd=ROOT, env=self.environment, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def project(valkey, tmp_path_factory):
    running = ReferenceProject(tmp_path_factory.mktemp("reference"), valkey.url)
    yield running
    running.close()


PLAN = """if True:
    from tasks.imports import services, tasks
    from tasks.imports.models import ImportRun
    run = ImportRun.objects.create(source=path)
    services.fetch_file(run.pk)
    services.validate_file(run.pk)
    run.refresh_from_db()
    answer = run.pk
"""


def test_a_file_goes_through_the_whole_pipeline(project, tmp_path):
    expected = write_products_csv(tmp_path / "products.csv", ROWS, random.Random(1))

    run_id = project.run(
        "from tasks.imports.services import start_import; answer = start_import(path).pk",
        path=str(tmp_path / "products.csv"),
    )

    run = project.wait_for_end(run_id, "done")
    assert (run["total"], run["imported"], run["rejected"]) == (ROWS, expected.imported, expected.rejected)
    assert run["report"]["rows_left"] == 0


def test_several_failed_chunks_are_one_failure_and_their_replay_heals_the_run(project, tmp_path):
    path = tmp_path / "products.csv"
    expected = write_products_csv(path, ROWS, random.Random(2))
    # the copy is cut between the plan and the import: two of five chunks fail for good
    run_id = project.run(
        PLAN
        + """
from django.core.files.storage import default_storage
content = default_storage.open(run.file.name).read()
with default_storage.open(run.file.name, "wb") as file:
    file.write(content[: len(content) * 65 // 100])
tasks.start_chunks(run.pk)
""",
        path=str(path),
    )

    run = project.wait_for_end(run_id, "failed")
    assert [chunk["start"] for chunk in run["report"]["failed_chunks"]] == [3000, 4000]
    assert run["imported"] + run["rejected"] + run["report"]["rows_left"] == ROWS
    project.worker.wait_for_log("task succeeded", task="imports.report_failure")
    assert len(project.worker.log_events("import failed", run_id=run_id)) == 1

    project.run(
        """if True:
            from pathlib import Path
            from django.core.files.storage import default_storage
            from tasks.imports import tasks
            from tasks.imports.models import ImportRun
            run = ImportRun.objects.get(pk=run_id)
            with default_storage.open(run.file.name, "wb") as file:
                file.write(Path(path).read_bytes())
            for start, stop in run.chunks.filter(state="failed").values_list("start", "stop"):
                tasks.import_chunk.delay(run_id, start, stop)
        """,
        run_id=run_id,
        path=str(path),
    )
    healed = project.wait_for_end(run_id, "done")
    assert (healed["imported"], healed["rejected"]) == (expected.imported, expected.rejected)


def test_a_second_chord_of_the_same_run_has_no_effect(project, tmp_path):
    expected = write_products_csv(tmp_path / "products.csv", ROWS, random.Random(3))
    summaries_before = len(project.worker.log_events("task succeeded", task="imports.summarise"))
    # as if the worker had been killed between the publish and the note that it was made
    run_id = project.run(
        PLAN
        + """
tasks.start_chunks(run.pk)
ImportRun.objects.filter(pk=run.pk, state="importing").update(state="planned")
tasks.start_chunks(run.pk)
""",
        path=str(tmp_path / "products.csv"),
    )

    project.worker.wait_for_log("task succeeded", task="imports.summarise", count=summaries_before + 2)
    run = project.wait_for_end(run_id, "done")
    assert (run["imported"], run["rejected"]) == (expected.imported, expected.rejected)
    assert len(project.worker.log_events("import done", run_id=run_id)) == 1


def test_a_file_that_is_no_product_file_is_reported(project, tmp_path):
    (tmp_path / "other.csv").write_text("name;price\nLamp;1\n")

    run_id = project.run(
        "from tasks.imports.services import start_import; answer = start_import(path).pk",
        path=str(tmp_path / "other.csv"),
    )

    run = project.wait_for_end(run_id, "failed")
    assert run["error"].startswith("InvalidFileError: The file begins with the columns 'name;price'.")


def test_every_webhook_arrives_at_a_receiver_that_often_fails(project):
    with WebhookReceiver(SECRET, fail_rate=0.2, seed=1) as receiver:
        ids = project.run(
            """if True:
                import random
                from tasks.webhooks.events import publish_deliveries
                from tasks.webhooks.load import create_deliveries
                from tasks.webhooks.models import WebhookEndpoint
                WebhookEndpoint.objects.create(url=url, secret=secret)
                answer = create_deliveries(40, random.Random(1), url=url)
                publish_deliveries(answer)
            """,
            url=receiver.url,
            secret=SECRET,
        )
        project.worker.wait_for_log(
            "task succeeded", task="webhooks.deliver", count=len(ids), timeout_seconds=60
        )

    assert receiver.received.unique == len(ids)
    assert receiver.received.refused == 0
    assert receiver.received.failed_on_purpose > 0
    assert receiver.received.duplicates == receiver.received.dropped_on_purpose > 0
    assert SECRET not in "\n".join(project.worker.lines)


def test_the_webhooks_of_a_receiver_that_is_down_wait_instead_of_using_up_their_retries(project, tmp_path):
    with WebhookReceiver(SECRET) as gone:
        url = gone.url
    ids = project.run(
        """if True:
            import random
            from tasks.webhooks.events import publish_deliveries
            from tasks.webhooks.load import create_deliveries
            from tasks.webhooks.models import WebhookEndpoint
            WebhookEndpoint.objects.create(url=url, secret=secret)
            answer = create_deliveries(40, random.Random(1), url=url)
            publish_deliveries(answer)
        """,
        url=url,
        secret=SECRET,
    )

    project.worker.wait_for_log("circuit breaker changed", breaker=f"webhooks:{host_of(url)}", after="open")
    wait_until(
        lambda: breaker_of(project, url)["parked"] >= len(ids), timeout_seconds=60, what="all of them wait"
    )

    attempts = project.run(
        """if True:
            from tasks.webhooks.models import WebhookDelivery
            answer = list(WebhookDelivery.objects.filter(pk__in=ids).values_list("attempts", "state"))
        """,
        ids=ids,
    )
    # the calls that opened it, and those that were under way then
    assert 10 <= sum(count for count, _ in attempts) <= 12
    assert {state for _, state in attempts} == {"pending"}


def host_of(url: str) -> str:
    return url.removeprefix("http://").partition("/")[0]


def breaker_of(project: ReferenceProject, url: str) -> dict[str, Any]:
    rows = json.loads(project.manage("breakers", "list", "--json"))
    return next(row for row in rows if row["name"] == f"webhooks:{host_of(url)}")
