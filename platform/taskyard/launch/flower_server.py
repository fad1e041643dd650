"""Flower with our limits: always behind a login, bounded memory, nothing kept on disk."""

from __future__ import annotations

import logging
import signal
from types import FrameType
from typing import Any

import structlog

from taskyard.conf import Settings
from taskyard.errors import LaunchError
from taskyard.launch.readiness import reachable_host

log = structlog.stdlib.get_logger("taskyard.flower")
MAX_TASKS = 1000
MAX_WORKERS = 200


def run_flower(celery_app: Any, settings: Settings, password: str) -> None:
    """Run Flower until SIGTERM or SIGINT.

    Flower's own `FLOWER_*` variables are honoured, except where they would change what is promised here.

    Args:
        celery_app: the application to watch.
        settings: for the address and the user.
        password: of that user.

    Raises:
        LaunchError: Flower is not installed, or its port is taken.
    """
    try:
        from flower.app import Flower
        from flower.command import apply_env_options
        from flower.urls import settings as web_settings
        from tornado.options import options
    except ImportError as error:
        raise LaunchError(
            f"Flower is not installed ({error}). Install it with: pip install 'taskyard[flower]'."
        ) from None
    quieten()
    apply_env_options()
    # Set here and not as arguments: everybody on the machine can read command lines.
    for name, value in flower_options(settings, password).items():
        setattr(options, name, value)
    server = Flower(capp=celery_app, options=options, **web_settings)
    signal.signal(signal.SIGTERM, _leave)
    try:
        server.start_http_server()
    except OSError as error:
        raise LaunchError(
            f"Flower cannot listen on {settings.host}:{settings.flower_port}: {error.strerror}. "
            "Stop what listens there, or set TASKYARD_FLOWER_PORT."
        ) from error
    log.info(
        "flower ready",
        url=f"http://{reachable_host(settings.host)}:{settings.flower_port}/",
        user=settings.flower_user,
    )
    try:
        server.start()
    except (KeyboardInterrupt, SystemExit):
        log.info("flower stops")
    finally:
        server.stop()


def quieten() -> None:
    """Keep Flower's log to what matters."""
    # One line for every request of a page that refreshes itself; refused logins are still shown.
    logging.getLogger("tornado.access").setLevel(logging.WARNING)
    # Four lines whenever no worker is up, which its pages show too.
    logging.getLogger("flower.inspector").setLevel(logging.ERROR)


def flower_options(settings: Settings, password: str) -> dict[str, Any]:
    """Return the options that Flower is always given."""
    return {
        "address": settings.host,
        "port": settings.flower_port,
        "unix_socket": "",
        "basic_auth": [f"{settings.flower_user}:{password}"],
        "auth": "",
        "max_tasks": MAX_TASKS,
        "max_workers": MAX_WORKERS,
        "persistent": False,
        "state_save_interval": 0,
        "debug": False,
    }


def _leave(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)
