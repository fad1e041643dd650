"""How a key is stored: any text works, also one that is too long or that a database cannot hold."""

from __future__ import annotations

import hashlib

# That of the database's column; the same on Redis, so that a project can change its store.
MAX_LENGTH = 255
DIGEST_LENGTH = 64
SHORTENED_LENGTH = MAX_LENGTH - DIGEST_LENGTH - 1


def stored_key(key: str) -> str:
    """Return the key as it is stored: itself, or its beginning and a digest of all of it.

    The digest stands for what does not fit: more than 255 characters, a NUL, half of a surrogate pair. A
    stored key is stored as itself, so what `read` and `find` return can be given back to the store.

    Raises:
        ValueError: the key is empty: it would join all the work whose key was forgotten.
    """
    if not key:
        raise ValueError("The key of a claim is empty. Make it of what makes the work the same work.")
    clean = stored_prefix(key)
    if clean == key and len(key) <= MAX_LENGTH:
        return key
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{clean[:SHORTENED_LENGTH]}~{digest}"


def stored_prefix(prefix: str) -> str:
    """Return the beginning of a key as it is stored: what no store can hold is replaced."""
    return prefix.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode("utf-8")
