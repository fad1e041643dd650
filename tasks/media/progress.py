"""Progress of an image set: exact in memory, written to the database only a few times a second."""

from __future__ import annotations

from dataclasses import dataclass, field

from tasks.media.models import ImageSet
from taskyard.clock import Clock

# A person sees no difference above this; a database does.
INTERVAL_SECONDS = 0.5
# The report is for reading; the count of broken pictures is exact.
REPORT_LIMIT = 100


@dataclass(slots=True)
class Progress:
    """How far one run has come.

    Args:
        image_set_id: whose progress it is.
        clock: where the time comes from.
        interval_seconds: the shortest time between two writes; `save` does not wait for it.
    """

    image_set_id: int
    clock: Clock
    interval_seconds: float = INTERVAL_SECONDS
    done: int = 0
    broken: int = 0
    report: list[dict[str, str]] = field(default_factory=list)
    _written_at: float | None = None

    def finish_picture(self) -> None:
        """Count one more picture, and write if the last write is long enough ago."""
        self.done += 1
        now = self.clock.monotonic()
        if self._written_at is None or now - self._written_at >= self.interval_seconds:
            self.save()

    def record_broken(self, picture: str, reason: str) -> None:
        """Keep the reason why a picture was left out; it counts as dealt with."""
        self.broken += 1
        if len(self.report) < REPORT_LIMIT:
            self.report.append({"picture": picture, "reason": reason})

    def save(self, **changes: object) -> None:
        """Write the progress now, together with other changes of the set.

        The numbers are set, never added up: a second run of the same set ends at the same ones. A set that is
        done stays done, also where that second run is slower or fails.
        """
        self._written_at = self.clock.monotonic()
        ImageSet.objects.filter(pk=self.image_set_id).exclude(state=ImageSet.State.DONE).update(
            done=self.done,
            broken=self.broken,
            report=self.report,
            progress_at=self.clock.now(),
            **changes,
        )
