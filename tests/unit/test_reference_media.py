"""The reference task "long-running with progress and cancel": resume, cancel, broken pictures, progress."""

from __future__ import annotations

import os
import random
import shutil
import struct
import warnings
import zlib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from celery.exceptions import SoftTimeLimitExceeded
from PIL import Image

from tasks.media import pictures, services
from tasks.media.errors import BrokenPictureError, SourceFolderError
from tasks.media.load import generate_photographs
from tasks.media.models import ImageSet
from tasks.media.progress import Progress
from tasks.media.tasks import resize_image_set
from taskyard import Cancel

pytestmark = pytest.mark.django_db
SIZES = [64, 16]


class ManualClock:
    """Moves on by a fixed step whenever it is asked, and calls back: an image set reads it once a picture."""

    def __init__(self, step_seconds: float = 0.0) -> None:
        self.step_seconds = step_seconds
        self.seconds = 0.0
        self.on_tick = lambda: None

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        self.seconds += self.step_seconds
        self.on_tick()
        return self.seconds


@pytest.fixture(autouse=True)
def media_root(settings, tmp_path):
    settings.MEDIA_ROOT = tmp_path / "media"
    return settings.MEDIA_ROOT


def picture(folder: Path, name: str, size: tuple[int, int] = (120, 80), mode: str = "RGB") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    Image.new(mode, size, 128 if mode == "L" else (200, 30, 30, 128)[: len(mode)]).save(path)
    return path


def image_set_of(folder: Path, count: int, sizes=SIZES) -> ImageSet:
    for number in range(count):
        picture(folder, f"{number}.jpg")
    return services.create_image_set(folder, sizes)


def outputs(image_set: ImageSet) -> dict[str, int]:
    """Modification times by path below the set's output folder; hidden files too."""
    root = services.output_folder(image_set.pk)
    return {
        str(path.relative_to(root)): path.stat().st_mtime_ns for path in root.rglob("*") if path.is_file()
    }


def test_every_picture_is_written_in_every_size(tmp_path):
    image_set = image_set_of(tmp_path / "in", 3)

    resize_image_set(image_set.pk)

    image_set.refresh_from_db()
    assert (image_set.state, image_set.done, image_set.total, image_set.broken) == ("done", 3, 3, 0)
    assert image_set.started_at <= image_set.finished_at
    assert sorted(outputs(image_set)) == [
        "16/0.jpg",
        "16/1.jpg",
        "16/2.jpg",
        "64/0.jpg",
        "64/1.jpg",
        "64/2.jpg",
    ]
    with Image.open(services.output_folder(image_set.pk) / "64" / "0.jpg") as image:
        assert image.size == (64, 43)


def test_a_started_set_is_published_after_the_commit(tmp_path, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks() as callbacks:
        image_set = services.start_image_set(tmp_path)

    assert (image_set.state, image_set.sizes) == ("waiting", [1280, 640, 160])
    assert len(callbacks) == 1


def test_generated_photographs_go_through_with_the_truncated_one_reported(tmp_path):
    generated = generate_photographs(tmp_path / "in", 8, random.Random(1))
    image_set = services.create_image_set(generated.folder, SIZES)

    resize_image_set(image_set.pk)

    image_set.refresh_from_db()
    assert (image_set.state, image_set.done, image_set.broken) == ("done", 8, 1)
    assert [entry["picture"] for entry in image_set.report] == ["photograph-0008.jpg"]
    assert "truncated" in image_set.report[0]["reason"]
    with Image.open(services.output_folder(image_set.pk) / "64" / "photograph-0005.jpg") as portrait:
        assert portrait.size == (48, 64)
    with Image.open(services.output_folder(image_set.pk) / "64" / "photograph-0007.png") as png:
        assert png.format == "PNG"


def test_the_same_seed_gives_the_same_photographs(tmp_path):
    for name in ("first", "second"):
        generate_photographs(tmp_path / name, 2, random.Random(7))

    assert (tmp_path / "first/photograph-0001.jpg").read_bytes() == (
        tmp_path / "second/photograph-0001.jpg"
    ).read_bytes()


def test_a_run_resumes_where_the_last_one_stopped(tmp_path):
    image_set = image_set_of(tmp_path / "in", 4)
    target = services.output_folder(image_set.pk)
    pictures.resize_picture(tmp_path / "in/0.jpg", target, SIZES)
    pictures.resize_picture(tmp_path / "in/1.jpg", target, SIZES[:1])
    before, clock, shown = outputs(image_set), ManualClock(), []
    clock.on_tick = lambda: shown.append(ImageSet.objects.get().done)

    services.resize_image_set(image_set.pk, clock=clock)

    after = outputs(image_set)
    assert len(after) == 8
    assert shown[1] == 1  # what is finished counts from the start
    assert {name: after[name] for name in before} == before  # finished files were not touched
    image_set.refresh_from_db()
    assert (image_set.state, image_set.done) == ("done", 4)


def test_a_finished_set_is_not_touched_by_a_second_delivery(tmp_path):
    image_set = image_set_of(tmp_path / "in", 2)
    resize_image_set(image_set.pk)
    before, finished_at = outputs(image_set), ImageSet.objects.get().finished_at
    shutil.rmtree(tmp_path / "in")  # nobody needs the source any more

    resize_image_set(image_set.pk)

    assert outputs(image_set) == before
    assert ImageSet.objects.get().finished_at == finished_at


def test_a_changed_picture_is_resized_again(tmp_path):
    image_set = image_set_of(tmp_path / "in", 1)
    target = services.output_folder(image_set.pk)
    pictures.resize_picture(tmp_path / "in/0.jpg", target, SIZES)
    later = outputs(image_set)["64/0.jpg"] + 10**9
    os.utime(tmp_path / "in/0.jpg", ns=(later, later))

    assert pictures.missing_sizes(tmp_path / "in/0.jpg", target, SIZES) == SIZES


def test_cancel_stops_between_two_pictures_and_keeps_what_is_finished(tmp_path):
    image_set = image_set_of(tmp_path / "in", 5)
    clock = ManualClock()

    def cancel_after_two() -> None:
        if len(outputs(image_set)) == 4:
            assert services.request_cancel(image_set.pk) is True

    clock.on_tick = cancel_after_two
    with pytest.raises(Cancel, match="cancelled after picture 2"):
        services.resize_image_set(image_set.pk, clock=clock)

    image_set.refresh_from_db()
    assert (image_set.state, image_set.done, image_set.note) == ("cancelled", 2, "cancelled after picture 2")
    assert len(outputs(image_set)) == 4
    with pytest.raises(Cancel, match="was cancelled before"):
        resize_image_set(image_set.pk)
    assert ImageSet.objects.get().done == 2


def test_a_set_that_has_ended_cannot_be_cancelled(tmp_path):
    image_set = image_set_of(tmp_path / "in", 1)
    resize_image_set(image_set.pk)

    assert services.request_cancel(image_set.pk) is False
    assert ImageSet.objects.get().cancel_requested is False


def test_a_deleted_set_is_cancelled():
    with pytest.raises(Cancel, match="image set 4711 no longer exists"):
        resize_image_set(4711)


def test_the_time_limit_saves_the_progress_and_ends_the_run(tmp_path):
    image_set = image_set_of(tmp_path / "in", 3)
    clock = ManualClock()

    def limit_after_one() -> None:
        if len(outputs(image_set)) == 2:
            clock.on_tick = lambda: None
            raise SoftTimeLimitExceeded

    clock.on_tick = limit_after_one
    with pytest.raises(SoftTimeLimitExceeded):
        services.resize_image_set(image_set.pk, clock=clock)

    image_set.refresh_from_db()
    assert (image_set.state, image_set.done) == ("interrupted", 1)
    assert image_set.note == "The time limit was reached after picture 1."
    resize_image_set(image_set.pk)
    image_set.refresh_from_db()
    assert (image_set.state, image_set.done, image_set.note) == ("done", 3, "")


def test_progress_is_written_a_few_times_a_second_only(tmp_path, django_assert_num_queries):
    image_set = image_set_of(tmp_path / "in", 0)
    progress = Progress(image_set.pk, ManualClock(step_seconds=0.1), interval_seconds=0.5)
    progress.save()

    with django_assert_num_queries(2):
        for _ in range(12):
            progress.finish_picture()

    assert progress.done == 12
    assert 0 < ImageSet.objects.get().done < 12
    progress.save()
    assert ImageSet.objects.get().done == 12


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


def test_a_set_that_ends_leaves_no_half_written_file_behind(tmp_path):
    image_set = image_set_of(tmp_path / "in", 1)
    part = services.output_folder(image_set.pk) / "64" / ".0.jpg.abc.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"of a run that was killed a moment ago")

    resize_image_set(image_set.pk)

    assert sorted(outputs(image_set)) == ["16/0.jpg", "64/0.jpg"]


def test_a_slower_second_run_does_not_reopen_a_set_that_is_done(tmp_path):
    image_set = image_set_of(tmp_path / "in", 1)
    slower = Progress(image_set.pk, ManualClock())
    resize_image_set(image_set.pk)

    slower.save(state=ImageSet.State.INTERRUPTED)

    image_set.refresh_from_db()
    assert (image_set.state, image_set.done) == ("done", 1)


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


def test_a_missing_folder_is_final(tmp_path):
    image_set = services.create_image_set(tmp_path / "nowhere")

    with pytest.raises(SourceFolderError) as raised:
        resize_image_set(image_set.pk)

    assert str(raised.value) == (
        f"The source folder cannot be read: '{tmp_path / 'nowhere'}' (No such file or directory). "
        "Put it there for the workers too, then replay the dead letter."
    )
    assert not resize_image_set.retry_policy.matches(raised.value)
    assert ImageSet.objects.get().state == "interrupted"


@pytest.mark.parametrize(
    ("folder", "sizes"), [("pictures", [64]), ("/pictures", []), ("/pictures", [0]), ("/p", [10_001])]
)
def test_a_set_that_cannot_work_is_refused(folder, sizes):
    with pytest.raises(SourceFolderError):
        services.create_image_set(Path(folder), sizes)

    assert not ImageSet.objects.exists()


def test_the_task_runs_on_the_bulk_queue_and_resumes_after_a_time_limit():
    assert resize_image_set.name == "media.resize_image_set"
    assert resize_image_set.queue == "bulk"
    assert resize_image_set.retry_policy.matches(SoftTimeLimitExceeded())
    assert resize_image_set.idempotent == "natural"
