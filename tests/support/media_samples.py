"""Folders of pictures, and what an image set has made of them, for the tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from PIL import Image

from tasks.media import services
from tasks.media.models import ImageSet

SIZES = [64, 16]


class ManualClock:
    """Moves on by a fixed step whenever it is asked, and calls back: an image set reads it once a picture."""

    def __init__(self, step_seconds: float = 0.0) -> None:
        self.step_seconds = step_seconds
        self.seconds = 0.0
        self.on_tick: Callable[[], None] = lambda: None

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        self.seconds += self.step_seconds
        self.on_tick()
        return self.seconds


def picture(folder: Path, name: str, size: tuple[int, int] = (120, 80), mode: str = "RGB") -> Path:
    """Write a picture of one colour into a folder, which need not exist."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    Image.new(mode, size, 128 if mode == "L" else (200, 30, 30, 128)[: len(mode)]).save(path)
    return path


def image_set_of(folder: Path, count: int, sizes: Sequence[int] = SIZES) -> ImageSet:
    """Create an image set of so many pictures, named by number."""
    for number in range(count):
        picture(folder, f"{number}.jpg")
    return services.create_image_set(folder, sizes)


def outputs(image_set: ImageSet) -> dict[str, int]:
    """Modification times by path below the set's output folder; hidden files too."""
    root = services.output_folder(image_set.pk)
    return {
        str(path.relative_to(root)): path.stat().st_mtime_ns for path in root.rglob("*") if path.is_file()
    }
