"""The reference task "long-running with progress and cancel": resume, cancel, time limit, progress."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from celery.exceptions import SoftTimeLimitExceeded
from PIL import Image

from tasks.media import pictures, services
from tasks.media.errors import SourceFolderError
from tasks.media.load import generate_photographs
from tasks.media.models import ImageSet
from tasks.media.progress import Progress
from tasks.media.tasks import resize_image_set
from taskyard import Cancel
from tests.support.media_samples import SIZES, ManualClock, image_set_of, outputs

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("media_root")]


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


def test_each_picture_is_reported_and_a_cancelled_task_stops_there(tmp_path):
    image_set = image_set_of(tmp_path / "in", 3)
    reports = []

    def report(*how_far):
        reports.append(how_far)
        if len(reports) == 2:
            raise Cancel("cancelled by ops")

    with pytest.raises(Cancel):
        services.resize_image_set(image_set.pk, report=report)

    image_set.refresh_from_db()
    assert reports == [(1, 3, "0.jpg"), (2, 3, "1.jpg")]
    assert (image_set.state, image_set.done, image_set.note) == ("cancelled", 2, "cancelled by ops")


def test_a_set_whose_task_never_started_says_that_it_is_cancelled(tmp_path):
    waiting, done = image_set_of(tmp_path / "in", 1), image_set_of(tmp_path / "in", 1)
    resize_image_set(done.pk)

    for image_set in (waiting, done):
        resize_image_set.on_cancelled("cancelled by ops", "task-id", [image_set.pk], {})

    waiting.refresh_from_db()
    done.refresh_from_db()
    assert (waiting.state, waiting.note, done.state) == ("cancelled", "cancelled by ops", "done")


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
