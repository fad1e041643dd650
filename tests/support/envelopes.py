"""Messages as they lie on a Redis list, right and wrong: from a stock producer, a bug or an attacker."""

from __future__ import annotations

import base64
import json
import uuid
from typing import Any

# A pickle that makes a directory when it is loaded: proof that it was, without being dangerous.
PICKLE = "cos\nmkdir\n(S'{path}'\ntR."


def envelope(key: str, **changes: Any) -> dict[str, Any]:
    """Return the envelope of a call of `probe.record`, as Kombu would write it.

    Args:
        key: the argument of the call, and its task id.
        changes: parts to replace, by name with `_` for `-`; None leaves a part out. `body` is text or bytes,
            to be encoded; `headers` and `properties` are merged, None values leave their key out.
    """
    whole: dict[str, Any] = {
        "body": json.dumps([[key], {}, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}]),
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": {
            "lang": "py",
            "task": "probe.record",
            "id": key,
            "root_id": key,
            "parent_id": None,
            "group": None,
        },
        "properties": {
            "correlation_id": key,
            "reply_to": "",
            "delivery_mode": 2,
            "delivery_info": {"exchange": "default", "routing_key": "default"},
            "priority": 5,
            "body_encoding": "base64",
            "delivery_tag": str(uuid.uuid4()),
        },
    }
    for name, value in changes.items():
        part = name.replace("_", "-")
        whole[part] = {**whole[part], **value} if isinstance(value, dict) else value
    body = whole["body"]
    if body is not None and whole["properties"] and whole["properties"].get("body_encoding"):
        whole["body"] = base64.b64encode(body.encode() if isinstance(body, str) else body).decode()
    return {name: _without_none(value) for name, value in whole.items() if value is not None}


def pickled(path: str) -> bytes:
    """Return a pickle whose loading makes the directory `path`."""
    return PICKLE.format(path=path).encode()


def task_ids(client: Any, queue: str) -> list[str]:
    """Return the task ids of the messages that wait in the plain list of a queue, in the order of arrival."""
    return [json.loads(raw)["headers"]["id"] for raw in reversed(client.lrange(queue, 0, -1))]


def _without_none(part: Any) -> Any:
    if not isinstance(part, dict):
        return part
    return {
        name: value for name, value in part.items() if value is not None or name in ("parent_id", "group")
    }
