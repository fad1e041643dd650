"""What the launcher's commands refuse, and how Flower is protected."""

import io

import pytest
from django.core.management import CommandError, call_command
from pydantic import SecretStr

from taskyard.conf import build_settings, get_settings
from taskyard.errors import LaunchError, UnknownQueueError
from taskyard.launch.flower_password import given_or_new_password
from taskyard.launch.flower_server import flower_options
from taskyard.launch.lock import FileLock


def test_up_refuses_to_run_outside_development(settings):
    settings.DEBUG = False

    with pytest.raises(CommandError, match=r"^manage\.py up is for development: .* Set DJANGO_DEBUG=1"):
        call_command("up")


def test_up_names_a_queue_that_does_not_exist(settings):
    settings.DEBUG = True

    with pytest.raises(UnknownQueueError, match=r"^--queue names the queue 'hihg', .* Did you mean 'high'\?"):
        call_command("up", queue=["hihg"])


def test_up_names_the_process_that_runs_the_platform_of_this_checkout(settings):
    settings.DEBUG = True
    lock = FileLock(get_settings().var_dir.absolute() / "up.lock")
    lock.acquire()
    lock.write_note("4711")
    try:
        with pytest.raises(
            CommandError, match=r"^The platform of this checkout runs already: process 4711\. Stop"
        ):
            call_command("up", stdout=io.StringIO())
    finally:
        lock.release()


def test_services_has_nothing_to_do_for_another_broker():
    # the tests' settings name a broker by its URL
    with pytest.raises(
        CommandError, match=r"^TASKYARD_BROKER_URL is redis://127\.0\.0\.1:1/0, so there is nothing to run"
    ):
        call_command("services")


def test_flower_has_no_default_password_outside_development(settings):
    settings.DEBUG = False

    with pytest.raises(LaunchError, match=r"^Flower has no password, .* Set TASKYARD_FLOWER_PASSWORD\.$"):
        given_or_new_password(build_settings({}))
    with pytest.raises(LaunchError):
        given_or_new_password(build_settings({"FLOWER_PASSWORD": ""}))


def test_flower_gets_the_password_that_is_set(settings):
    settings.DEBUG = False

    assert given_or_new_password(build_settings({"FLOWER_PASSWORD": SecretStr("s3cret")})) == (
        "s3cret",
        False,
    )


def test_flower_gets_a_new_password_each_time_in_development(settings):
    settings.DEBUG = True

    (first, is_new), (second, _) = (given_or_new_password(build_settings({})) for _ in range(2))

    assert is_new
    assert first != second
    assert len(first) >= 16


def test_flower_is_bounded_and_behind_a_login_on_the_given_address():
    options = flower_options(
        build_settings({"HOST": "127.0.0.1", "FLOWER_PORT": 5999, "FLOWER_USER": "ops"}), "s3cret"
    )

    assert options["basic_auth"] == ["ops:s3cret"]
    assert (options["address"], options["port"]) == ("127.0.0.1", 5999)
    assert (options["max_tasks"], options["persistent"], options["debug"]) == (1000, False, False)
