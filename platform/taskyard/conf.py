"""The typed settings: read once, validated once, all problems listed together, frozen after.

A Django project gives them as `TASKYARD = {...}` with upper-case keys. The reference project fills that
from environment variables named `TASKYARD_<KEY>`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)

from taskyard.errors import ConfigurationError, SettingsError, did_you_mean
from taskyard.masking import mask_url
from taskyard.queues import QueueTable, build_queue_table

SUPPORTED_SCHEMES = ("embedded", "redis", "rediss", "sentinel")
PLANNED_SCHEMES = ("amqp", "amqps", "sqs")
ENV_PREFIX = "TASKYARD_"
# The value of STATE_URL (and, for results, of RESULT_BACKEND) that means the Django database.
DATABASE_STATE = "django-db"
# Values that are no URLs, by setting.
_WORDS = {"result_backend": ("django-db", "disabled"), "state_url": (DATABASE_STATE,)}
# Settings whose environment variable is JSON.
_JSON_KEYS = ("QUEUES", "ENCRYPTION_KEYS")
# Of a key that is shorter, all possible ones can be tried.
MIN_ENCRYPTION_KEY = 16
_ENCODE = "percent-encode what is not a letter or a digit in its password"


class Settings(BaseModel):
    """Every setting of the kit, with its default and its unit."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        arbitrary_types_allowed=True,
        validate_default=True,
        allow_inf_nan=False,
    )

    broker_url: str = Field(
        "embedded://",
        description="Where messages wait: redis://, rediss://, sentinel:// or embedded:// (a Valkey server "
        "from a wheel). Several, separated by ';', are failover addresses.",
    )
    result_backend: str | None = Field(
        None, description="Where results go for the tasks that ask for them; the broker when unset."
    )
    state_url: str | None = Field(
        None,
        description="Where claims, leases and limits are: one Redis or Valkey server, or django-db; "
        "the broker when unset.",
    )
    sentinel_master: str | None = Field(
        None, description="Name of the primary that the Sentinels watch; needed with sentinel://."
    )
    var_dir: Path = Field(Path("var"), description="Where the embedded broker and development files live.")
    embedded_port: int = Field(6390, ge=1, le=65535, description="Port of the embedded broker.")
    key_prefix: str = Field("", description="Put before every key on Redis, to share one server.")
    queues: dict[str, dict[str, Any]] = Field(
        default_factory=dict,
        description="Changes to the queue table, by queue name; a new name makes a new queue.",
    )
    default_queue: str = Field("default", description="Queue of the tasks that name none.")
    publish_timeout_seconds: float = Field(
        2.0, gt=0, le=60, description="The whole budget of one publish; then a PublishTimeoutError."
    )
    argument_warn_bytes: int = Field(
        16 * 1024, ge=1, description="Arguments above this are logged when published."
    )
    argument_limit_bytes: int = Field(256 * 1024, ge=1, description="Arguments above this are refused.")
    max_worker_losses: int = Field(
        3, ge=0, description="Times a task is run again after its process died; then it is dead-lettered."
    )
    lease_seconds: float = Field(
        10.0,
        ge=1,
        le=300,
        description="A claim or lease of a process that has died or hangs is free after this.",
    )
    idempotency_ttl_seconds: float = Field(
        7 * 24 * 3600.0, gt=0, description="How long an idempotent task that is done is remembered."
    )
    cancel_grace_seconds: float = Field(
        10.0,
        ge=0,
        description="How long a cancelled run may take to notice; then it gets its soft time limit.",
    )
    encryption_keys: tuple[SecretStr, ...] = Field(
        (),
        description="Keys for what dead letters keep of marked arguments, the newest first; a JSON list. "
        "Made from Django's SECRET_KEY when unset.",
    )
    dead_letter_retention_days: float = Field(
        30.0, gt=0, description="Replayed and discarded dead letters are deleted after this."
    )
    tracked_task_retention_days: float = Field(
        30.0,
        gt=0,
        description="Rows of long and cancelled tasks are deleted so long after their end; failed ones that "
        "could be resumed after a year.",
    )
    effect_retention_days: float = Field(
        90.0, gt=0, description="Records of effects that have happened once are deleted after this."
    )
    snooze_max_age_seconds: float = Field(
        7 * 24 * 3600.0, gt=0, description="A task snoozed for longer is dead-lettered."
    )
    soft_shutdown_seconds: float = Field(
        20.0,
        ge=0,
        description="How long a stopping worker lets running tasks finish before it puts them back.",
    )
    result_expires_seconds: int = Field(24 * 3600, ge=1, description="How long stored results are kept.")
    socket_timeout_seconds: float = Field(
        10.0, gt=0, description="A worker gives up on a silent broker connection after this."
    )
    log_format: Literal["auto", "json", "console"] = Field(
        "auto", description="json for machines, console for people; auto is console under DEBUG, else json."
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"] = "INFO"
    host: str = Field("127.0.0.1", description="Address that web and Flower listen on.")
    web_port: int = Field(8000, ge=1, le=65535, description="Port of the Django site.")
    flower_port: int = Field(5555, ge=1, le=65535, description="Port of Flower.")
    flower_user: str = Field("flower", description="Login of Flower.")
    flower_password: SecretStr | None = Field(
        None, description="Password of Flower; `make up` makes one for development when unset."
    )

    @field_validator("broker_url", "result_backend", "state_url")
    @classmethod
    def _scheme_is_supported(cls, value: str | None, info: Any) -> str | None:
        if value is None or value in _WORDS.get(info.field_name, ()):
            return value
        for url in value.split(";"):
            scheme = _scheme_of(url, shown=mask_url(value))
            if scheme in SUPPORTED_SCHEMES:
                _check_address(url, shown=mask_url(value))
                continue
            if scheme in PLANNED_SCHEMES:
                raise ValueError(
                    f"the scheme {scheme}:// is not supported yet in {mask_url(value)!r}; use redis://"
                )
            raise ValueError(
                f"the scheme {scheme!r} of {mask_url(value)!r} is unknown."
                f"{did_you_mean(scheme, SUPPORTED_SCHEMES)} "
                f"Use one of {', '.join(f'{known}://' for known in SUPPORTED_SCHEMES)}"
            )
        return value

    @field_validator("encryption_keys")
    @classmethod
    def _keys_are_long(cls, value: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
        for place, key in enumerate(value, 1):
            length = len(key.get_secret_value())
            if length < MIN_ENCRYPTION_KEY:
                raise ValueError(
                    f"key {place} has {length} characters, and must have {MIN_ENCRYPTION_KEY} or more. "
                    "Make one with: python -c 'import secrets; print(secrets.token_urlsafe(32))'"
                )
        return value

    @field_validator("queues")
    @classmethod
    def _queues_can_be_built(cls, value: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        problems = []
        for name, changes in value.items():
            try:
                build_queue_table({name: changes})
            except ConfigurationError as error:
                problems.append(str(error))
        if problems:
            raise ValueError(" ".join(problems))
        return value

    @model_validator(mode="after")
    def _rules_across_fields(self) -> Settings:
        problems = []
        if self.argument_warn_bytes > self.argument_limit_bytes:
            problems.append(
                f"TASKYARD['ARGUMENT_WARN_BYTES'] is {self.argument_warn_bytes}, above ARGUMENT_LIMIT_BYTES, "
                f"which is {self.argument_limit_bytes}. The warning must come first."
            )
        if not self.sentinel_master and any(
            url.startswith("sentinel:") for url in (self.broker_url, self.state_url or "")
        ):
            problems.append("sentinel:// needs the name of the primary. Set TASKYARD['SENTINEL_MASTER'].")
        if self.state_url and ";" in self.state_url and not self.state_url.startswith("sentinel:"):
            problems.append(
                f"TASKYARD['STATE_URL'] is {mask_url(self.state_url)!r}, which are several servers: each "
                "would have claims of its own. Name one, or Sentinels."
            )
        try:
            build_queue_table(self.queues, default=self.default_queue)
        except ConfigurationError as error:
            problems.append(str(error))
        if problems:
            raise SettingsError(problems)
        return self

    # made once: each publish and each received message looks at it
    @cached_property
    def queue_table(self) -> QueueTable:
        """The queues of this project, most urgent first."""
        return build_queue_table(self.queues, default=self.default_queue)

    @property
    def effective_broker_url(self) -> str:
        """The broker's URL with embedded:// resolved to the address where the embedded server listens."""
        return self._resolve(self.broker_url)

    @property
    def effective_result_backend(self) -> str:
        """Where results go."""
        url = self._resolve(self.result_backend) if self.result_backend else self.effective_broker_url
        # Celery's Redis backend takes a list of Sentinels, but no list of servers
        return url if url.startswith("sentinel") else url.split(";")[0]

    @property
    def effective_state_url(self) -> str:
        """Where claims, leases and limits go; of several brokers the first: two would both grant them."""
        url = self._resolve(self.state_url) if self.state_url else self.effective_broker_url
        return url if url.startswith("sentinel") else url.split(";")[0]

    @property
    def uses_embedded_broker(self) -> bool:
        return urlsplit(self.broker_url).scheme == "embedded"

    def _resolve(self, url: str) -> str:
        if urlsplit(url).scheme == "embedded":
            return f"redis://127.0.0.1:{self.embedded_port}/0"
        return url


def build_settings(given: Mapping[str, Any]) -> Settings:
    """Return the validated settings.

    Args:
        given: settings by upper-case key, as in `TASKYARD = {...}`.

    Raises:
        SettingsError: lists every problem; unknown keys come with a suggestion.
    """
    settings, problems = _validate(given)
    if settings is None or problems:
        raise SettingsError(problems)
    return settings


def _validate(given: Mapping[str, Any]) -> tuple[Settings | None, list[str]]:
    known = [name.upper() for name in Settings.model_fields]
    problems = [
        f"TASKYARD[{key!r}] is not a setting.{did_you_mean(str(key), known)} See `manage.py taskyard config`."
        for key in given
        if key not in known
    ]
    try:
        return Settings(**{key.lower(): value for key, value in given.items() if key in known}), problems
    except ValidationError as error:
        # `from None` would not do: the original holds the values, credentials too
        problems += [_describe(item) for item in error.errors()]
    except SettingsError as error:
        problems += error.problems
    return None, problems


def _describe(item: Any) -> str:
    reason = item["msg"].removeprefix("Value error, ").removesuffix(".")
    key, *rest = item["loc"]
    path = "".join(f"[{part!r}]" for part in (str(key).upper(), *rest))
    # URLs mask their credentials in the message itself; a secret's value is never repeated.
    is_secret = any(word in key for word in ("password", "url", "backend", "encryption"))
    shown = "" if is_secret or item["type"] == "value_error" else f" is {item.get('input')!r}"
    return f"TASKYARD{path}{shown}: {reason}."


# `shown` is the whole setting, masked: a ';' in a password would make each part look harmless.
def _scheme_of(url: str, *, shown: str) -> str:
    try:
        return urlsplit(url).scheme if "://" in url else ""
    except ValueError:
        # its own message holds the address, with the password
        raise ValueError(f"{shown!r} is not a URL; {_ENCODE}") from None


def _check_address(url: str, *, shown: str) -> None:
    """Refuse an address whose password has cut it off, here and not in a worker."""
    parts = urlsplit(url)
    try:
        is_whole = (parts.port is None or parts.port > 0) and "@" not in parts.path + parts.fragment
    except ValueError:
        is_whole = False
    if not is_whole:
        raise ValueError(f"the address in {shown!r} has no valid host and port; {_ENCODE}")


def settings_from_environ(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the value for `TASKYARD = ...` from the variables named `TASKYARD_<KEY>`.

    Empty variables count as unset. QUEUES and ENCRYPTION_KEYS are JSON.

    Raises:
        SettingsError: a variable with our prefix is not a setting, or its JSON does not parse; lists the
            problems of the other variables too.
    """
    known = {name.upper() for name in Settings.model_fields}
    found: dict[str, Any] = {}
    problems: list[str] = []
    for name, text in environ.items():
        if not name.startswith(ENV_PREFIX) or not text:
            continue
        key = name.removeprefix(ENV_PREFIX)
        if key not in known:
            names = [f"{ENV_PREFIX}{known_key}" for known_key in sorted(known)]
            problems.append(f"The environment variable {name} is not a setting.{did_you_mean(name, names)}")
        elif key in _JSON_KEYS:
            try:
                found[key] = json.loads(text)
            except ValueError as error:
                problems.append(f"The environment variable {name} is not JSON: {error}.")
        else:
            found[key] = text
    if problems:
        raise SettingsError([*problems, *_validate(found)[1]])
    return found


@lru_cache(maxsize=1)
def get_settings() -> Settings:
    """Return the settings of the running Django project; read and validated at the first call.

    Raises:
        SettingsError: `TASKYARD` in the Django settings has problems (all are listed).
    """
    from django.conf import settings as django_settings

    return build_settings(getattr(django_settings, "TASKYARD", {}))
