"""Files of products and the imports of them, for the tests."""

from __future__ import annotations

from pathlib import Path

from tasks.imports import services, tasks
from tasks.imports.models import ImportRun

HEADER = b"sku,name,price,stock\n"
GOOD = b"A-1,Lamp,12.50,3\n"


def run_of(tmp_path: Path, content: bytes, name: str = "products.csv") -> ImportRun:
    """Create an import of a file with this content."""
    path = tmp_path / name
    path.write_bytes(content)
    return ImportRun.objects.create(source=str(path))


def planned_run(tmp_path: Path, content: bytes) -> ImportRun:
    """Create an import that is fetched and planned in chunks of three rows."""
    run = run_of(tmp_path, content)
    tasks.fetch_file(run.pk)
    services.validate_file(run.pk, chunk_rows=3)
    run.refresh_from_db()
    return run


def ranges(run: ImportRun) -> list[tuple[int, int]]:
    """Return the chunks of an import as first row and end."""
    return list(run.chunks.values_list("start", "stop"))


def import_all(run: ImportRun) -> None:
    """Import every chunk, in order."""
    for start, stop in ranges(run):
        services.import_chunk(run.pk, start, stop)


def products(count: int) -> bytes:
    """Return good rows, named by number."""
    return b"".join(f"P-{number},Thing {number},{number}.00,{number}\n".encode() for number in range(count))
