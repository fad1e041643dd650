"""One picture: read it safely, make it smaller, write it whole or not at all."""

from __future__ import annotations

import contextlib
import os
import struct
import tempfile
import warnings
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from PIL import Image, ImageOps

from tasks.media.errors import BrokenPictureError

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp"})
# Only these decoders see the bytes: Pillow's others (EPS starts Ghostscript) are no business of an upload.
FORMATS = ("JPEG", "PNG", "WEBP")
_PART = ".part"
_SAVE_OPTIONS: dict[str, dict[str, object]] = {
    "JPEG": {"quality": 85, "progressive": True},
    "PNG": {"compress_level": 6},
    "WEBP": {"quality": 85},
}
# What Pillow raises for bytes that are not the picture they claim to be.
_DECODE_ERRORS = (
    SyntaxError,
    ValueError,
    EOFError,
    struct.error,
    Image.DecompressionBombError,
    Image.DecompressionBombWarning,
)
_UNREADABLE = (FileNotFoundError, PermissionError, IsADirectoryError)


def list_pictures(folder: Path) -> list[Path]:
    """Return the pictures directly in a folder, in a fixed order, so that every run counts the same way."""
    return sorted(
        path
        for path in folder.iterdir()
        if path.suffix.lower() in SUFFIXES and not path.name.startswith(".") and path.is_file()
    )


def output_path(target: Path, source: Path, size: int) -> Path:
    """Return where the picture goes: always the same place, which makes a second run harmless."""
    return target / str(size) / source.name


def missing_sizes(source: Path, target: Path, sizes: Iterable[int]) -> list[int]:
    """Return the sizes that are not finished, the largest first.

    An output is finished if it is there (it appears only whole) and not older than its source.
    """
    try:
        changed_at = source.stat().st_mtime_ns
    except FileNotFoundError:
        return sorted(sizes, reverse=True)
    return sorted(
        (size for size in sizes if not _is_current(output_path(target, source, size), changed_at)),
        reverse=True,
    )


def _is_current(output: Path, changed_at: int) -> bool:
    try:
        return output.stat().st_mtime_ns >= changed_at
    except (FileNotFoundError, NotADirectoryError):
        return False


def resize_picture(source: Path, target: Path, sizes: Sequence[int]) -> None:
    """Write one picture in several sizes.

    Args:
        source: the picture; JPEG, PNG or WebP.
        target: folder of the outputs; each size has a folder of its own in it.
        sizes: longest edges in pixels, the largest first. A smaller picture is not enlarged.

    Raises:
        BrokenPictureError: the picture cannot be decoded, or would need too much memory.
        OSError: the outputs cannot be written, or the disk of the source fails: worth another try.
    """
    if not sizes:
        return
    picture, picture_format = _read(source, sizes[0])
    for size in sizes:
        # each size is made from the one before: as good to the eye and several times faster
        picture.thumbnail((size, size), Image.Resampling.LANCZOS)
        _write_whole(picture, output_path(target, source, size), picture_format)


def _read(source: Path, largest: int) -> tuple[Image.Image, str]:
    try:
        with warnings.catch_warnings():
            # Between one and two times its limit Pillow only warns, and then decodes the bomb.
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(source, formats=FORMATS) as image:
                picture_format = image.format or "JPEG"
                # lets the JPEG decoder skip the detail that is thrown away anyway
                image.draft(None, (largest, largest))
                image.load()
                return _normalised(image, picture_format), picture_format
    except _UNREADABLE as error:
        raise BrokenPictureError(f"cannot be read: {error.strerror}") from error
    except OSError as error:
        # Pillow's own errors carry no errno; the others are the disk's, and heal or need a person
        if error.errno is not None:
            raise
        raise BrokenPictureError(_reason(error, source)) from error
    except _DECODE_ERRORS as error:
        raise BrokenPictureError(_reason(error, source)) from error


def _reason(error: BaseException, source: Path) -> str:
    return str(error).replace(str(source), source.name) or type(error).__name__


def _normalised(image: Image.Image, picture_format: str) -> Image.Image:
    """Return the picture upright and in a colour mode that its format can hold, without its metadata.

    Metadata tells where and by whom a photograph was taken; only the colour profile is kept.
    """
    profile = image.info.get("icc_profile") if image.mode in ("RGB", "RGBA") else None
    upright = ImageOps.exif_transpose(image)
    keeps_transparency = picture_format != "JPEG" and upright.has_transparency_data
    picture = upright.convert("RGBA" if keeps_transparency else "RGB")
    picture.info = {} if profile is None else {"icc_profile": profile}
    return picture


def _write_whole(picture: Image.Image, output: Path, picture_format: str) -> None:
    output.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=output.parent, prefix=f".{output.name}.", suffix=_PART)
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            picture.save(
                file,
                format=picture_format,
                icc_profile=picture.info.get("icc_profile"),
                **_SAVE_OPTIONS[picture_format],
            )
            file.flush()
            # The name must not outlive the content in a power cut: an empty file would count as finished.
            os.fsync(file.fileno())
            os.fchmod(file.fileno(), 0o644)
        part.replace(output)
    except BaseException:  # also a time limit or a stop of the worker
        with contextlib.suppress(FileNotFoundError):
            part.unlink()
        raise


def remove_stale_parts(target: Path, *, now: datetime, older_than: timedelta) -> int:
    """Delete what killed runs left half-written, and return how many files that were.

    Younger ones may belong to a run of the same set that is still alive.
    """
    limit, removed = (now - older_than).timestamp(), 0
    for part in target.glob(f"*/.*{_PART}"):
        with contextlib.suppress(FileNotFoundError):
            if part.stat().st_mtime < limit:
                part.unlink()
                removed += 1
    return removed
