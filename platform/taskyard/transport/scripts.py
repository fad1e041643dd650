"""The Lua scripts of the transport, by name; other packages keep theirs in the same way.

Each file in `lua/` says what it does, its keys and its arguments.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from redis.exceptions import NoScriptError


@dataclass(frozen=True, slots=True)
class Script:
    """One Lua script and its digest."""

    source: str
    sha: str

    def run(self, client: Any, keys: Sequence[str], arguments: Iterable[Any]) -> Any:
        """Run the script on a client whose keys are already prefixed.

        Load it first where the server lost it.
        """
        try:
            return client.evalsha(self.sha, len(keys), *keys, *arguments)
        except NoScriptError:
            return client.eval(self.source, len(keys), *keys, *arguments)


@cache
def script(name: str, package: str = "taskyard.transport") -> Script:
    """Return the script `lua/<name>.lua` of a package."""
    source = resources.files(package).joinpath("lua", f"{name}.lua").read_text(encoding="utf-8")
    return Script(source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest())
