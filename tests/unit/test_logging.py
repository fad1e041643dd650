"""One format for the lines of every process: JSON for machines, readable for people, each outcome once."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from datetime import datetime
from types import SimpleNamespace

import pytest

from taskyard.conf import build_settings
from taskyard.observe.logging import RepeatedOutcomeFilter, wants_json

# In a process of its own: logging is global.
SCRIPT = """
import logging, sys
import structlog
from taskyard.conf import build_settings
from taskyard.observe.logging import configure_logging

configure_logging(build_settings({"LOG_FORMAT": sys.argv[1], "LOG_LEVEL": sys.argv[2]}))
ours = structlog.stdlib.get_logger("taskyard.task")
other = logging.getLogger("shop.orders")

ours.debug("too fine")
with structlog.contextvars.bound_contextvars(task="mail.send", task_id="id-1", correlation_id="id-1"):
    ours.info("task started", queue="low", weird=object)
    other.info("order %s has %d items", "A-7", 3)
other.warning("percent %s without arguments")
logging.getLogger("httpx").info("chatter")
logging.getLogger("multiprocessing").warning("from billiard")

def charge(card_number):
    hidden = card_number
    raise ValueError("declined")

try:
    charge("4111")
except ValueError:
    ours.error("task failed", exc_info=True)
    other.exception("it failed")
ours.info("outside", text="line one\\nline two", nothing=None, umlaut="\\xe4")
"""


def lines_of(log_format: str, level: str = "INFO", **environ: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, log_format, level],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONIOENCODING": "utf-8", **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == ""
    return done.stderr.splitlines()


@pytest.fixture(scope="module")
def json_lines():
    return [json.loads(line) for line in lines_of("json")]


@pytest.fixture(scope="module")
def console_lines():
    return lines_of("console")


class TestJSON:
    def test_every_line_is_an_object_with_the_same_fields(self, json_lines):
        for line in json_lines:
            assert {"message", "level", "logger", "timestamp"} <= set(line)
            assert datetime.fromisoformat(line["timestamp"]).utcoffset().total_seconds() == 0

    def test_the_lines_are_those_at_or_above_the_level(self, json_lines):
        assert [line["message"] for line in json_lines] == [
            "task started",
            "order A-7 has 3 items",
            "percent %s without arguments",
            "from billiard",
            "task failed",
            "it failed",
            "outside",
        ]

    def test_a_line_of_ours_has_its_fields_and_those_of_the_run(self, json_lines):
        line = json_lines[0]

        assert line["task"] == "mail.send"
        assert line["task_id"] == line["correlation_id"] == "id-1"
        assert line["queue"] == "low"
        assert line["level"] == "info"
        assert line["logger"] == "taskyard.task"
        assert line["weird"] == "<class 'object'>"

    def test_a_line_of_anybody_within_a_run_says_which(self, json_lines):
        line = json_lines[1]

        assert (line["logger"], line["task"], line["task_id"]) == ("shop.orders", "mail.send", "id-1")

    def test_outside_a_run_there_are_no_fields_of_one(self, json_lines):
        assert "task_id" not in json_lines[-1]

    def test_an_error_has_its_traceback_but_no_values(self, json_lines):
        for line in json_lines[4:6]:
            assert line["exception"].startswith("Traceback (most recent call last):")
            assert line["exception"].endswith("ValueError: declined")
            assert "4111" not in json.dumps(line)

    def test_text_of_more_than_one_line_stays_in_its_line(self, json_lines):
        assert json_lines[-1]["text"] == "line one\nline two"
        assert json_lines[-1]["nothing"] is None


class TestConsole:
    def test_a_line_has_the_time_of_day_the_level_and_the_fields(self, console_lines):
        line = console_lines[0]

        datetime.strptime(line[:8], "%H:%M:%S")  # noqa: DTZ007 - a time of day
        assert "[info" in line
        assert "task started" in line
        assert "queue=low" in line
        assert "task=mail.send" in line

    def test_names_of_our_own_loggers_and_an_id_shown_twice_are_left_out(self, console_lines):
        assert "taskyard.task" not in console_lines[0]
        assert "correlation_id" not in console_lines[0]
        assert "shop.orders" in console_lines[1]

    def test_a_traceback_shows_no_values(self, console_lines):
        text = "\n".join(console_lines)

        assert "ValueError: declined" in text
        assert "4111" not in text.replace('charge("4111")', "")

    def test_there_are_colours_only_for_a_terminal_or_when_asked(self, console_lines):
        assert "\x1b[" not in "".join(console_lines)
        assert "\x1b[" in "".join(lines_of("console", FORCE_COLOR="1"))


def test_the_level_is_that_of_the_settings():
    lines = [json.loads(line)["message"] for line in lines_of("json", "ERROR")]

    assert lines == ["task failed", "it failed"]


@pytest.mark.parametrize(
    ("log_format", "debug", "as_json"),
    [
        ("json", True, True),
        ("json", False, True),
        ("console", True, False),
        ("console", False, False),
        ("auto", True, False),
        ("auto", False, True),
    ],
)
def test_auto_is_for_people_in_development_and_for_machines_elsewhere(settings, log_format, debug, as_json):
    settings.DEBUG = debug

    assert wants_json(build_settings({"LOG_FORMAT": log_format})) is as_json


def keeps(name: str, level: int, message: str = "x", **attributes: object) -> bool:
    record = logging.LogRecord(name, level, "f.py", 1, message, (), None)
    vars(record).update(attributes)
    return RepeatedOutcomeFilter().filter(record)


class TestRepeatedOutcomes:
    """Celery logs each outcome again, with the values of the arguments."""

    @pytest.mark.parametrize("name", ["celery.app.trace", "celery.worker.strategy"])
    @pytest.mark.parametrize("level", [logging.DEBUG, logging.INFO])
    def test_received_and_succeeded_are_dropped(self, name, level):
        assert not keeps(name, level)

    def test_a_failure_with_its_arguments_is_dropped(self):
        data = {"name": "mail.send", "args": "('4111',)", "internal": False}

        assert not keeps("celery.app.trace", logging.ERROR, data=data)

    def test_an_internal_error_is_kept(self):
        assert keeps("celery.app.trace", logging.ERROR, data={"name": "mail.send", "internal": True})

    @pytest.mark.parametrize("level", [logging.WARNING, logging.ERROR])
    def test_other_warnings_are_kept(self, level):
        assert keeps("celery.app.trace", level)
        assert keeps("celery.worker.strategy", level)

    @pytest.mark.parametrize(
        "message",
        [
            "Task handler raised error: %r",
            "Hard time limit (%ss) exceeded for %s[%s]",
            "Task %s[%s] retry: %s",
        ],
    )
    def test_what_our_request_has_said_is_dropped(self, message):
        assert not keeps("celery.worker.request", logging.ERROR, message)

    def test_the_rest_of_the_request_is_kept(self):
        assert keeps("celery.worker.request", logging.WARNING, "Soft time limit (%ss) exceeded for %s[%s]")

    @pytest.mark.parametrize("name", ["celery.beat", "celery.worker", "shop.orders", "taskyard.task", "root"])
    @pytest.mark.parametrize("level", [logging.DEBUG, logging.INFO, logging.ERROR])
    def test_other_loggers_are_left_alone(self, name, level):
        assert keeps(name, level, data=SimpleNamespace())
