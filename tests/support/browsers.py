"""A real Chromium, from the system's package; the Python package brings none, and none is downloaded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, Route, expect, sync_playwright

from tests.support.servers import MissingServiceError

PROGRAM = Path("/usr/bin/chromium")
ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
# Long enough for two busy cores; what takes longer hangs.
TIMEOUT_MS = 20_000
# Browsers ask for it by themselves.
NOT_ASKED_FOR = "/favicon.ico"

expect.set_options(timeout=TIMEOUT_MS)


def require_chromium() -> None:
    """Return if the browser is installed.

    Raises:
        MissingServiceError: it is not.
    """
    if not PROGRAM.exists():
        raise MissingServiceError(f"{PROGRAM} is missing. Install it with: apt-get install chromium")


@contextmanager
def running_chromium() -> Iterator[Browser]:
    """Start the browser, and end it with the block."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(PROGRAM), args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()


class Visitor:
    """One person with one window on a site, logged in; collects what the pages complain of.

    Args:
        browser: a running browser.
        base_url: of the site.
        session: the value of the session cookie.
        width: of the window, in pixels.
        options: of the browser's context, for instance `java_script_enabled=False`.
    """

    def __init__(
        self, browser: Browser, *, base_url: str, session: str, width: int = 1280, **options: Any
    ) -> None:
        self.context = browser.new_context(
            base_url=base_url, viewport={"width": width, "height": 900}, **options
        )
        self.context.add_cookies([{"name": "sessionid", "value": session, "url": base_url}])
        self.context.set_default_timeout(TIMEOUT_MS)
        self.complaints: list[str] = []
        self.page: Page = self.context.new_page()
        self._base_url = base_url
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", self._on_console)
        self.page.on("request", self._on_request)
        self.page.on("response", self._on_response)

    def enforce_policy(self, policy: str) -> None:
        """Send every page with this Content-Security-Policy."""

        def with_policy(route: Route) -> None:
            response = route.fetch()
            route.fulfill(response=response, headers={**response.headers, "content-security-policy": policy})

        self.context.route("**/*", with_policy)

    @property
    def overflow(self) -> int:
        """By how many pixels the page is wider than the window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth"))

    def close(self) -> None:
        self.context.close()

    def _on_console(self, message: Any) -> None:
        if message.type in ("error", "warning") and not message.location["url"].endswith(NOT_ASKED_FOR):
            self.complaints.append(f"{message.text} ({self.page.url})")

    def _on_request(self, request: Any) -> None:
        if not request.url.startswith((self._base_url, "data:")):
            self.complaints.append(f"a request to another host: {request.url}")

    def _on_response(self, response: Any) -> None:
        if response.status >= 400 and not response.url.endswith(NOT_ASKED_FOR):
            self.complaints.append(f"status {response.status}: {response.url}")
