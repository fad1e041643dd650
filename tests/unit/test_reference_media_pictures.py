"""The pictures of an image set: broken ones, bombs, full disks, half-written files, colour modes."""

from __future__ import annotations

import os
import struct
import warnings
import zlib
from datetime import UTC, datetime, timedelta

import pytest
from PIL import Image

from tasks.media import pictures, services
from tasks.media.errors import BrokenPictureError
from tasks.media.tasks import resize_image_set
from tests.support.media_samples import SIZES, image_set_of, outputs, picture

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("media_root")]


def test_a_changed_picture_is_resized_again(tmp_path):
    image_set = image_set_of(tmp_path / "in", 1)
    target = services.output_folder(image_set.pk)
    pictures.resize_picture(tmp_path / "in/0.jpg", target, SIZES)
    later = outputs(image_set)["64/0.jpg"] + 10**9
    os.utime(tmp_path / "in/0.jpg", ns=(later, later))

    assert pictures.missing_sizes(tmp_path / "in/0.jpg", target, SIZES) == SIZES


def test_a_broken_picture_is_recorded_and_the_others_go_on(tmp_path):
    folder = tmp_path / "in"
    image_set = image_set_of(folder, 2)
    (folder / "1-not-a-picture.jpg").write_bytes(b"MZ this is something else")
    cut = picture(folder, "1-cut.png", size=(300, 300))
    cut.write_bytes(cut.read_bytes()[:150])
    picture(folder, "other.gif", mode="L")  # not a kind that is resized

    resize_image_set(image_set.pk)

    image_set.refresh_from_db()
    assert (image_set.state, image_set.total, image_set.done, image_set.broken) == ("done", 4, 4, 2)
    assert [entry["picture"] for entry in image_set.report] == ["1-cut.png", "1-not-a-picture.jpg"]
    assert sorted(outputs(image_set)) == ["16/0.jpg", "16/1.jpg", "64/0.jpg", "64/1.jpg"]
    assert str(tmp_path) not in str(image_set.report)


@pytest.mark.parametrize("edge", [10_000, 60_000])  # above Pillow's limit, and above twice the limit
def test_a_decompression_bomb_is_a_broken_picture(tmp_path, edge):
    bomb = tmp_path / "bomb.png"
    bomb.write_bytes(png_of_zeros(edge))

    # as in a worker; in the tests every warning is an error anyway
    with (
        warnings.catch_warnings(action="ignore"),
        pytest.raises(BrokenPictureError, match="decompression bomb"),
    ):
        pictures.resize_picture(bomb, tmp_path / "out", [16])

    assert not (tmp_path / "out").exists()


def png_of_zeros(edge: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", edge, edge, 1, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b""))
        + chunk(b"IEND", b"")
    )


def test_a_full_disk_is_not_taken_for_a_broken_picture(tmp_path):
    image_set = image_set_of(tmp_path / "in", 1)
    target = services.output_folder(image_set.pk)
    target.mkdir(parents=True)
    (target / "64").write_text("a file where the folder should be")

    with pytest.raises(FileExistsError):
        resize_image_set(image_set.pk)

    image_set.refresh_from_db()
    assert (image_set.state, image_set.broken) == ("interrupted", 0)
    assert image_set.note.startswith("FileExistsError")


def test_a_failing_disk_is_not_taken_for_a_broken_picture(tmp_path):
    with pytest.raises(OSError, match="too long"):
        pictures.resize_picture(tmp_path / ("x" * 300 + ".jpg"), tmp_path / "out", [16])


def test_a_failed_write_leaves_nothing_behind(tmp_path):
    source, target = picture(tmp_path / "in", "0.jpg"), tmp_path / "out"
    (target / "64" / "0.jpg").mkdir(parents=True)  # a folder cannot be replaced by a file

    with pytest.raises(IsADirectoryError):
        pictures.resize_picture(source, target, [64])

    assert [path.name for path in (target / "64").iterdir()] == ["0.jpg"]


def test_what_killed_runs_left_is_removed_once_no_live_run_can_own_it(tmp_path):
    (tmp_path / "64").mkdir()
    old, young = tmp_path / "64" / ".0.jpg.abc.part", tmp_path / "64" / ".1.jpg.def.part"
    for part, changed_at in ((old, 1_000_000), (young, 1_003_000)):
        part.write_bytes(b"half")
        os.utime(part, (changed_at, changed_at))

    removed = pictures.remove_stale_parts(
        tmp_path, now=datetime.fromtimestamp(1_004_000, UTC), older_than=timedelta(hours=1)
    )

    assert removed == 1
    assert not old.exists()
    assert young.exists()


def test_metadata_is_dropped_and_the_orientation_applied(tmp_path):
    source = tmp_path / "gps.jpg"
    exif = Image.Exif()
    exif[0x0112] = 6  # lies on its side
    exif[0x010F] = "Camera of Somebody"
    Image.new("RGB", (100, 50)).save(source, exif=exif)

    pictures.resize_picture(source, tmp_path / "out", [40])

    with Image.open(tmp_path / "out/40/gps.jpg") as image:
        assert image.size == (20, 40)
        assert not image.getexif()


@pytest.mark.parametrize(
    ("name", "mode"), [("grey.jpg", "L"), ("clear.png", "RGBA"), ("clear.webp", "RGBA"), ("p.png", "P")]
)
def test_other_colour_modes_are_written(tmp_path, name, mode):
    source = tmp_path / name
    Image.new(mode, (90, 60)).save(source)

    pictures.resize_picture(source, tmp_path / "out", [200, 30])

    with Image.open(tmp_path / "out/200" / name) as image:
        assert image.size == (90, 60)  # not enlarged
        assert (image.mode == "RGBA") is (mode == "RGBA")
