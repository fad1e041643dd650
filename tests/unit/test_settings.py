"""The settings: defaults, all problems in one message, suggestions, and no password in any message."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskyard.celery_options import check_project_options
from taskyard.conf import PLANNED_SCHEMES, Settings, build_settings, settings_from_environ
from taskyard.errors import SettingsError
from taskyard.queues import DEFAULT_QUEUES
from taskyard.retry import Fixed


def problems_of(given_settings) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        build_settings(given_settings)
    return caught.value.problems


def environ_problems(environ) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        settings_from_environ(environ)
    return caught.value.problems


def test_the_defaults():
    settings = build_settings({})

    assert settings.broker_url == "embedded://"
    assert settings.publish_timeout_seconds == 2.0
    assert settings.argument_warn_bytes == 16 * 1024
    assert settings.argument_limit_bytes == 256 * 1024
    assert settings.host == "127.0.0.1"
    assert (settings.web_port, settings.flower_port) == (8000, 5555)
    assert list(settings.queue_table) == ["critical", "high", "default", "low", "bulk"]
    assert settings.queue_table.default == "default"


def test_every_setting_but_the_self_explanatory_has_a_description():
    assert [name for name, field in Settings.model_fields.items() if not field.description] == ["log_level"]


def test_all_problems_come_in_one_message():
    with pytest.raises(SettingsError) as caught:
        build_settings(
            {
                "BROKER_ULR": "redis://x",
                "EMBEDDED_PORT": 70000,
                "PUBLISH_TIMEOUT_SECONDS": "soon",
                "LOG_FORMAT": "xml",
                "QUEUES": {"high": {"prefetsch": 2}, "bulk": {"processes": 0}},
            }
        )

    message = str(caught.value)
    assert message.startswith("5 settings are wrong:\n  - ")
    assert "TASKYARD['BROKER_ULR'] is not a setting. Did you mean 'BROKER_URL'?" in message
    assert "TASKYARD['EMBEDDED_PORT'] is 70000: Input should be less than or equal to 65535." in message
    assert "TASKYARD['PUBLISH_TIMEOUT_SECONDS'] is 'soon': Input should be a valid number" in message
    assert "TASKYARD['LOG_FORMAT'] is 'xml': Input should be 'auto', 'json' or 'console'." in message
    assert "QUEUES['high'] has the unknown field 'prefetsch'. Did you mean 'prefetch'?" in message
    assert "Queue 'bulk' has processes=0. It must be 1 or more." in message


def test_rules_across_settings_come_in_one_message_too():
    assert problems_of(
        {
            "ARGUMENT_WARN_BYTES": 100,
            "ARGUMENT_LIMIT_BYTES": 10,
            "DEFAULT_QUEUE": "defualt",
            "BROKER_URL": "sentinel://h:26379",
        }
    ) == (
        "TASKYARD['ARGUMENT_WARN_BYTES'] is 100, above ARGUMENT_LIMIT_BYTES, which is 10. "
        "The warning must come first.",
        "sentinel:// needs the name of the primary. Set TASKYARD['SENTINEL_MASTER'].",
        "The setting DEFAULT_QUEUE names the queue 'defualt', which does not exist. Did you mean 'default'? "
        "The queues are: critical, high, default, low, bulk.",
    )


def test_the_state_is_on_one_server():
    assert problems_of({"STATE_URL": "redis://:s3cret@a:6379/0;redis://b:6379/0"}) == (
        "TASKYARD['STATE_URL'] is 'redis://:******@a:6379/0;redis://b:6379/0', which are several servers: "
        "each would have claims of its own. Name one, or Sentinels.",
    )
    assert problems_of({"STATE_URL": "sentinel://a:26379;sentinel://b:26379"}) == (
        "sentinel:// needs the name of the primary. Set TASKYARD['SENTINEL_MASTER'].",
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"BROKER_URL": "redis://a:1/0;redis://b:2/0"}, "redis://a:1/0"),
        ({"BROKER_URL": "redis://a:1/0", "STATE_URL": "redis://b:2/0"}, "redis://b:2/0"),
        (
            {"STATE_URL": "sentinel://a:1;sentinel://b:2", "SENTINEL_MASTER": "main"},
            "sentinel://a:1;sentinel://b:2",
        ),
        ({"STATE_URL": "embedded://", "EMBEDDED_PORT": 7000}, "redis://127.0.0.1:7000/0"),
        ({"STATE_URL": "django-db"}, "django-db"),
    ],
)
def test_the_state_is_where_the_settings_say_else_on_the_first_broker(given, expected):
    assert build_settings(given).effective_state_url == expected


@pytest.mark.parametrize(
    ("key", "suggestion"),
    [
        ("BROKER_ULR", " Did you mean 'BROKER_URL'?"),
        ("broker_url", " Did you mean 'BROKER_URL'?"),
        ("PUBLISH_TIMEOUT", " Did you mean 'PUBLISH_TIMEOUT_SECONDS'?"),
        ("QUEUE", " Did you mean 'QUEUES'?"),
        ("XYZZY", ""),
        (7, ""),
    ],
)
def test_an_unknown_key_is_refused_with_a_suggestion(key, suggestion):
    assert problems_of({key: "x"}) == (
        f"TASKYARD[{key!r}] is not a setting.{suggestion} See `manage.py taskyard config`.",
    )


def test_an_unknown_variable_is_refused_with_a_suggestion_together_with_the_other_problems():
    assert environ_problems(
        {"TASKYARD_BROKER_ULR": "redis://h", "TASKYARD_WEB_PORT": "80a", "PATH": "/bin", "TASKYARDX": "1"}
    ) == (
        "The environment variable TASKYARD_BROKER_ULR is not a setting. Did you mean 'TASKYARD_BROKER_URL'?",
        "TASKYARD['WEB_PORT'] is '80a': "
        "Input should be a valid integer, unable to parse string as an integer.",
    )


def test_variables_become_settings_and_empty_ones_are_unset():
    found = settings_from_environ(
        {
            "TASKYARD_WEB_PORT": "8080",
            "TASKYARD_BROKER_URL": "",
            "TASKYARD_QUEUES": json.dumps({"high": {"processes": 9}, "mail": {"prefetch": 2}}),
            "HOME": "/home/x",
        }
    )

    settings = build_settings(found)
    assert set(found) == {"WEB_PORT", "QUEUES"}
    assert settings.web_port == 8080
    assert settings.queue_table["high"].processes == 9
    assert settings.queue_table["mail"].prefetch == 2
    assert list(settings.queue_table)[-1] == "mail"


def test_queues_that_are_not_json_are_refused():
    (problem,) = environ_problems({"TASKYARD_QUEUES": "{high: 1}"})

    assert problem.startswith("The environment variable TASKYARD_QUEUES is not JSON: ")


@pytest.mark.parametrize(
    ("queues", "problem"),
    [
        (
            {"high": {"prefetch": "4"}},
            "TASKYARD['QUEUES']: Queue 'high' has prefetch='4'. It must be a number.",
        ),
        (
            {"high": {"time_limit_seconds": None}},
            "TASKYARD['QUEUES']: Queue 'high' has time_limit_seconds=None. It must be a number.",
        ),
        (
            {"high": {"retry": {"max_retries": 3}}},
            "TASKYARD['QUEUES']: Queue 'high' has retry={'max_retries': 3}. Give a policy of taskyard.retry.",
        ),
        (
            {"high": {"on_exhausted": "droop"}},
            "TASKYARD['QUEUES']: Queue 'high' has on_exhausted='droop'. Did you mean 'drop'? "
            "Use 'dead_letter' or 'drop'.",
        ),
        (
            {"high": {"soft_time_limit_seconds": 60}},
            "TASKYARD['QUEUES']: Queue 'high' has a soft limit of 60 s and a hard limit of 60 s. "
            "The soft limit must be above 0 and below the hard limit.",
        ),
        ({"high": 1}, "TASKYARD['QUEUES']['high'] is 1: Input should be a valid dictionary."),
    ],
)
def test_impossible_queue_changes_are_refused(queues, problem):
    assert problems_of({"QUEUES": queues}) == (problem,)


def test_a_python_project_may_change_a_queue_policy():
    policy = Fixed(seconds=1, reason="known restart")

    settings = build_settings({"QUEUES": {"high": {"retry": policy}}})

    assert settings.queue_table["high"].retry == policy
    assert DEFAULT_QUEUES[1].retry != policy


@pytest.mark.parametrize("scheme", PLANNED_SCHEMES)
def test_a_planned_scheme_says_that_it_is_not_there_yet(scheme):
    assert problems_of({"BROKER_URL": f"{scheme}://user:hunter2@h//"}) == (
        f"TASKYARD['BROKER_URL']: the scheme {scheme}:// is not supported yet in "
        f"'{scheme}://user:******@h//'; use redis://.",
    )


@pytest.mark.parametrize(
    ("url", "scheme", "suggestion"),
    [
        ("reddis://:hunter2@h", "reddis", " Did you mean 'redis'?"),
        ("kafka://h", "kafka", ""),
        ("localhost", "", ""),
        ("", "", ""),
        ("redis://h;redsi://h2", "redsi", " Did you mean 'redis'?"),
    ],
)
@pytest.mark.parametrize("key", ["BROKER_URL", "STATE_URL", "RESULT_BACKEND"])
def test_an_unknown_scheme_is_refused_with_a_suggestion(key, url, scheme, suggestion):
    (problem,) = problems_of({key: url})

    assert problem.startswith(f"TASKYARD[{key!r}]: the scheme {scheme!r} of ")
    assert problem.endswith(
        f" is unknown.{suggestion} Use one of embedded://, redis://, rediss://, sentinel://."
    )
    assert "hunter2" not in problem


@pytest.mark.parametrize("backend", ["django-db", "disabled"])
def test_the_result_backends_that_are_no_urls(backend):
    assert build_settings({"RESULT_BACKEND": backend}).result_backend == backend


AWKWARD = "@/:;%?#[]&= é℀\\"


@given(
    scheme=st.sampled_from(["redis", "rediss", "sentinel", "amqp", "reddis", "", "redis:/"]),
    middle=st.text(alphabet=AWKWARD + "abc1", max_size=6).filter(lambda text: " " not in text),
    key=st.sampled_from(["BROKER_URL", "STATE_URL", "RESULT_BACKEND"]),
)
def test_no_message_about_a_url_holds_its_password(scheme, middle, key):
    url = f"{scheme}://user:Zleft{middle}Zright@h:6379/0"

    try:
        build_settings({key: url, "WEB_PORT": -1, "SENTINEL_MASTER": 5})
    except SettingsError as error:
        seen = f"{error} {error.problems} {error!r} {error.__cause__!r} {error.__context__!r}"
    assert "WEB_PORT" in seen
    assert "zleft" not in seen.lower()
    assert "zright" not in seen.lower()


@pytest.mark.parametrize("character", ["/", "#", "["])
def test_a_password_that_breaks_its_url_is_refused_at_the_start(character):
    (problem,) = problems_of({"BROKER_URL": f"redis://:pa{character}ss@h:6379/0"})

    assert problem.startswith("TASKYARD['BROKER_URL']: ")
    assert problem.endswith("percent-encode what is not a letter or a digit in its password.")
    build_settings({"BROKER_URL": f"redis://:pa{quote(character, safe='')}ss@h:6379/0"})


@pytest.mark.parametrize("value", [["hunter2"], 5, b"hunter2"])
def test_no_message_holds_the_password_of_flower(value):
    with pytest.raises(SettingsError) as caught:
        build_settings({"FLOWER_PASSWORD": value, "WEB_PORT": -1})

    assert "hunter2" not in str(caught.value)


def test_a_secret_is_not_shown_by_the_settings_themselves():
    settings = build_settings({"FLOWER_PASSWORD": "hunter2"})

    assert "hunter2" not in repr(settings)
    assert settings.flower_password.get_secret_value() == "hunter2"


def test_embedded_is_resolved_to_the_address_of_the_embedded_server():
    settings = build_settings({"EMBEDDED_PORT": 7001})

    assert settings.uses_embedded_broker
    assert settings.effective_broker_url == "redis://127.0.0.1:7001/0"
    assert settings.effective_state_url == "redis://127.0.0.1:7001/0"
    assert settings.effective_result_backend == "redis://127.0.0.1:7001/0"


def test_results_and_state_follow_the_broker_unless_they_are_set():
    follows = build_settings({"BROKER_URL": "redis://a/0"})
    stated = build_settings(
        {"BROKER_URL": "redis://a/0", "STATE_URL": "redis://b/1", "RESULT_BACKEND": "redis://c/2"}
    )

    assert follows.effective_state_url == follows.effective_result_backend == "redis://a/0"
    assert not follows.uses_embedded_broker
    assert stated.effective_state_url == "redis://b/1"
    assert stated.effective_result_backend == "redis://c/2"


def test_settings_are_frozen():
    settings = build_settings({})

    with pytest.raises(pydantic.ValidationError, match="frozen"):
        settings.web_port = 1


@pytest.mark.parametrize(
    "changes",
    [
        {"PUBLISH_TIMEOUT_SECONDS": 0},
        {"PUBLISH_TIMEOUT_SECONDS": float("nan")},
        {"PUBLISH_TIMEOUT_SECONDS": 61},
        {"SNOOZE_MAX_AGE_SECONDS": float("inf")},
        {"MAX_WORKER_LOSSES": -1},
        {"EMBEDDED_PORT": 0},
        {"ARGUMENT_LIMIT_BYTES": 0},
    ],
)
def test_numbers_out_of_range_are_refused(changes):
    (problem,) = problems_of(changes)

    assert problem.startswith(f"TASKYARD[{next(iter(changes))!r}] is ")


def test_zero_is_a_value():
    settings = build_settings({"MAX_WORKER_LOSSES": 0, "SOFT_SHUTDOWN_SECONDS": 0})

    assert settings.max_worker_losses == 0
    assert settings.soft_shutdown_seconds == 0


def test_the_path_of_the_data_is_a_path():
    assert build_settings({"VAR_DIR": "/srv/x"}).var_dir == Path("/srv/x")


def test_unknown_celery_settings_are_refused_with_a_suggestion():
    with pytest.raises(SettingsError) as caught:
        check_project_options(
            {"CELERY_TASK_ALWAYS_EAGRE": True, "CELERY_BEAT_SCHEDULE": {}, "CELERY_XYZZY": 1}
        )

    assert caught.value.problems == (
        "CELERY_TASK_ALWAYS_EAGRE is not a Celery setting. Did you mean 'CELERY_TASK_ALWAYS_EAGER'?",
        "CELERY_XYZZY is not a Celery setting.",
    )


def test_known_celery_settings_get_celerys_names():
    assert check_project_options({"CELERY_TASK_TIME_LIMIT": 3, "CELERY_BEAT_SCHEDULE": {}}) == {
        "task_time_limit": 3,
        "beat_schedule": {},
    }


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("CELERY_ACCEPT_CONTENT", "Messages are JSON only (TY007); leave it out."),
        ("CELERY_TASK_ROUTES", "Give name_rules or content_rules to create_app() instead."),
    ],
)
def test_settings_that_a_promise_stands_on_are_refused(name, advice):
    with pytest.raises(SettingsError) as caught:
        check_project_options({name: "anything"})

    assert caught.value.problems == (f"{name} is not yours to set. {advice}",)
