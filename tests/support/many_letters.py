"""A million dead letters, made by PostgreSQL itself in half a minute."""

from __future__ import annotations

import psycopg

NUMBER, FAULTS = 1_000_000, 30_000
# Every 20th was discarded and is old enough to be purged.
RESOLVED = NUMBER // 20
# A few faults have most of the letters, as in life, and each is spread over all ids.
_LETTERS = f"""
INSERT INTO deadletters_deadletter (
    status, task_name, task_id, reason, queue, priority, args, kwargs, sealed, canvas, headers,
    correlation_id, retries, worker, attempts, error, error_type, error_place, traceback, fingerprint,
    sealed_raw, created_at, resolved_at, resolved_by, discard_reason, replay_task_id, replay_sealed
)
SELECT
    CASE WHEN i % 20 = 0 THEN 'discarded' ELSE 'open' END,
    'area.task_' || f % 200, 'id-' || i,
    (ARRAY['retries_exhausted', 'not_retryable', 'time_limit', 'poison'])[1 + f % 4],
    (ARRAY['critical', 'high', 'default', 'low', 'bulk'])[1 + f % 200 % 5],
    5, '[]', '{{}}', '', '{{}}', '{{}}', 'request-' || i / 3, 3, 'host', '[]',
    'ConnectionError: number ' || i, 'ConnectionError', 'partners.py:' || f, '', lpad(to_hex(f), 16, '0'), '',
    timestamptz '2026-01-01 00:00+00' + i * interval '5 seconds',
    CASE WHEN i % 20 = 0 THEN timestamptz '2026-01-02 00:00+00' END, '', '', '', ''
FROM (
    SELECT i, floor(power(i::bigint * 7919 % {NUMBER + 3} / {NUMBER + 3}.0, 4) * {FAULTS})::int AS f
    FROM generate_series(1, {NUMBER}) i
) AS numbered
"""
_COUNTS = """
INSERT INTO deadletters_faultcount (
    fingerprint, queue, shard, task_name, reason, error_type, error_place, open, replaying, replayed,
    discarded, first_seen, last_seen, last_id
)
SELECT
    fingerprint, queue, 0, min(task_name), min(reason), min(error_type), min(error_place),
    count(*) FILTER (WHERE status = 'open'), 0, 0, count(*) FILTER (WHERE status = 'discarded'),
    min(created_at), max(created_at), max(id)
FROM deadletters_deadletter
GROUP BY fingerprint, queue
"""


def make_many(database_url: str) -> None:
    """Fill the empty tables of a migrated database."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        # filling a table and then its indexes takes half as long as filling both
        indexes = connection.execute(
            "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'deadletters_deadletter' "
            "AND indexname NOT LIKE '%pkey'"
        ).fetchall()
        for name, _ in indexes:
            connection.execute(f'DROP INDEX "{name}"')
        connection.execute(_LETTERS)
        connection.execute("SET maintenance_work_mem = '256MB'")
        for _, definition in indexes:
            connection.execute(definition)
        connection.execute(_COUNTS)
        for table in ("deadletters_deadletter", "deadletters_faultcount"):
            connection.execute(f"VACUUM ANALYZE {table}")
