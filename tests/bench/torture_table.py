"""A torture run for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from tests.bench.history import ALLOWED_CAUSES

if TYPE_CHECKING:
    from tests.bench.torture_run import TorturePlan
    from tests.bench.verdict import Verdict


def torture_table(plan: TorturePlan, verdict: Verdict) -> Table:
    """Return the table that the tool prints."""
    title = f"Torture of {plan.transport} on {plan.broker}, seed {plan.seed}, {verdict.seconds:g} s"
    table = Table(title=title, show_header=False, title_justify="left")
    table.add_column(style="bold")
    table.add_column()
    _counts(table, verdict)
    table.add_section()
    _faults(table, verdict)
    table.add_section()
    for cause, count in sorted(verdict.duplicates.items()):
        mark = "" if cause in ALLOWED_CAUSES else "  [red]must not happen[/]"
        table.add_row("ran again", f"{count}: {cause}{mark}")
    for exit_ in verdict.unasked_exits:
        table.add_row("exit nobody asked for", f"{exit_['worker']}: exit code {exit_['exit_code']}")
    table.add_section()
    if verdict.held:
        table.add_row("promise", "[green]held[/]")
    for problem in verdict.broken:
        table.add_row("promise", f"[red]broken[/]: {problem}")
    return table


def _counts(table: Table, verdict: Verdict) -> None:
    table.add_row(
        "acknowledged / uncertain", f"{verdict.acknowledged:,} / {verdict.uncertain:,} of {verdict.tasks:,}"
    )
    table.add_row("ran (runs)", f"{verdict.ran:,} ({verdict.runs:,})")
    table.add_row("lost", str(len(verdict.lost)))
    if verdict.lost_in_everysec_window:
        count = len(verdict.lost_in_everysec_window)
        table.add_row("lost in the everysec window", f"{count} (documented: about one second of writes)")
    table.add_row("stranded in the broker", str(len(verdict.stranded)))
    letters = ", ".join(f"{count} {reason}" for reason, count in verdict.dead_letters.items())
    table.add_row("dead letters", letters or "0")


def _faults(table: Table, verdict: Verdict) -> None:
    for kind, count in sorted(verdict.faults.items()):
        parts = [f"{count} times"]
        if kind in verdict.recovery_seconds:
            found = verdict.recovery_seconds[kind]
            parts.append(
                f"{found['count']} held tasks ran again after p50 {found['p50']} s, p99 {found['p99']} s"
            )
        if kind in verdict.service_gap_seconds:
            found = verdict.service_gap_seconds[kind]
            parts.append(f"next task started after p50 {found['p50']} s, p99 {found['p99']} s")
        table.add_row(kind, "; ".join(parts))
    if verdict.forced_stops:
        table.add_row("stops that had to be forced", str(verdict.forced_stops))
