"""The files of the repository, as Git has them; where there is no Git, as they lie there."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
NOT_OURS = {".venv", "var", "dist", "build", "__pycache__"}


def tracked_files() -> list[Path]:
    """Return every tracked file that exists."""
    if (ROOT / ".git").exists():
        listed = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
        )
        paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    else:
        paths = [path for path in ROOT.rglob("*") if not NOT_OURS & set(path.relative_to(ROOT).parts)]
    return sorted(path for path in paths if path.is_file())


def text_of(path: Path) -> str | None:
    """Return the file's text, None for one that is no text."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None
