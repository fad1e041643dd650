"""What a demonstration shows: live progress by queue, and the final table."""

from __future__ import annotations

from rich import box
from rich.console import Group
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tasks.demo.account import Account, QueueAccount, median, percentile_95


def progress(account: Account, *, elapsed_seconds: float) -> Group:
    """Return the live view."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("queue", "", "done", "sent", "retries", "dead"):
        table.add_column(column, justify="left" if column in ("queue", "") else "right")
    for name, queue in account.queues.items():
        done, sent = len(queue.ended), len(queue.sent)
        table.add_row(
            name,
            ProgressBar(total=max(1, sent), completed=done, width=40),
            str(done),
            str(sent),
            str(queue.retried),
            str(queue.count("failed")),
        )
    return Group(table, Text(f"{elapsed_seconds:.0f} s, {len(account.open)} tasks on their way", style="dim"))


def final_table(account: Account, *, dead_letters: set[str]) -> Table:
    """Return the table that ends a demonstration; it fits a terminal of 80 columns."""
    table = Table(
        title="Every task, accounted for",
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE,
        padding=(0, 1, 0, 0),
    )
    table.add_column("\nqueue", no_wrap=True)
    for column in ("\nsent", "suc-\nceeded", "re-\ntried", "dead\nletters", "\nother"):
        table.add_column(column, justify="right", no_wrap=True)
    for column in ("wait\nmedian", "\np95", "run\nmedian", "\np95"):
        table.add_column(column, justify="right", no_wrap=True)
    for name, queue in account.queues.items():
        table.add_row(name, *_numbers(queue, dead_letters), *_times(queue))
    return table


def _numbers(queue: QueueAccount, dead_letters: set[str]) -> list[str]:
    failed = {task_id for task_id, end in queue.ended.items() if end == "failed"}
    # dropped after their retries, or cancelled by themselves
    other = len(failed - dead_letters) + queue.count("cancelled")
    return [
        str(len(queue.sent)),
        str(queue.count("succeeded")),
        str(queue.retried),
        str(len(failed & dead_letters)),
        str(other),
    ]


def _times(queue: QueueAccount) -> list[str]:
    numbers = (median(queue.waits), percentile_95(queue.waits), median(queue.runs), percentile_95(queue.runs))
    return [duration(number) for number in numbers]


def duration(seconds: float | None) -> str:
    """Return a duration as a person reads it: milliseconds below a second."""
    if seconds is None:
        return "-"
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
