"""The account of a demonstration, and how it is shown."""

from __future__ import annotations

import io

from rich.console import Console

from tasks.demo.account import Account, percentile_95
from tasks.demo.display import final_table, progress
from tasks.demo.journal import Entry, correlation_id, run_of

QUEUES = ("critical", "high", "default", "low", "bulk")


def entry(kind: str, task_id: str, queue: str = "critical", **times: float) -> Entry:
    return Entry(kind, task_id, "area.do_it", queue, **times)  # type: ignore[arg-type]


def account_of(*entries: Entry) -> Account:
    account = Account(QUEUES)
    account.add(entries)
    return account


def test_a_task_is_open_until_it_has_ended() -> None:
    account = account_of(
        entry("sent", "1"), entry("sent", "2"), entry("retried", "1"), entry("succeeded", "2")
    )

    assert account.open == {"1"}
    assert account.queues["critical"].retried == 1


def test_a_task_that_was_killed_for_good_is_found_among_the_dead_letters() -> None:
    account = account_of(entry("sent", "1"), entry("sent", "2"))

    account.close({"2"})

    assert account.open == {"1"}
    assert account.queues["critical"].count("failed") == 1


def test_an_end_that_is_read_before_the_sending_counts() -> None:
    account = account_of(entry("succeeded", "1"), entry("sent", "1"))

    assert account.open == set()


def test_the_95th_percentile_is_a_value_that_occurred() -> None:
    assert percentile_95([float(number) for number in range(1, 101)]) == 95.0
    assert percentile_95([3.0]) == 3.0
    assert percentile_95([]) is None


def test_a_correlation_id_says_which_demonstration_it_is_of() -> None:
    assert run_of(correlation_id("abc", 7)) == "abc"
    assert run_of("something-else") is None
    assert run_of(None) is None


def test_the_final_table_fits_80_columns() -> None:
    account = Account(QUEUES)
    for queue in QUEUES:
        for number in range(1500):
            task_id = f"{queue}-{number}"
            account.add(
                [entry("sent", task_id, queue), entry("succeeded", task_id, queue, wait=12.34, run=0.5)]
            )
    output = io.StringIO()
    console = Console(file=output, width=80)

    console.print(final_table(account, dead_letters=set()))
    console.print(progress(account, elapsed_seconds=1))

    text = output.getvalue()
    assert "…" not in text
    for shown in ("critical", "1500", "letters", "12.3 s", "500 ms"):
        assert shown in text
