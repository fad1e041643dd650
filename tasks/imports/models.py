"""The tables of the imports: the run, its chunks, the rows that were rejected, and the products."""

from __future__ import annotations

from django.db import models


class ImportRun(models.Model):
    """One file on its way into the product table.

    The counts are set once, from the tables, when the run ends; nothing is added up on the way.
    """

    class State(models.TextChoices):
        WAITING = "waiting", "waiting"
        FETCHED = "fetched", "fetched"
        PLANNED = "planned", "planned"
        IMPORTING = "importing", "importing"
        DONE = "done", "done"
        FAILED = "failed", "failed"

    source = models.CharField(max_length=1000, help_text="Absolute path, or a name in the default storage.")
    file = models.FileField(max_length=300, blank=True, help_text="The run's own copy.")
    checksum = models.CharField(max_length=64, blank=True, help_text="SHA-256 of the copy.")
    state = models.CharField(max_length=16, choices=State.choices, default=State.WAITING, db_index=True)
    total = models.PositiveIntegerField(default=0, help_text="Rows in the file, without its header.")
    imported = models.PositiveIntegerField(default=0)
    rejected = models.PositiveIntegerField(default=0)
    report = models.JSONField(default=dict, blank=True)
    error = models.TextField(blank=True, help_text="What the last failed attempt to fetch or validate said.")
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    failure_reported_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"import {self.pk} ({self.state})"


class ImportChunk(models.Model):
    """A range of rows that one task imports, whole or not at all."""

    class State(models.TextChoices):
        PLANNED = "planned", "planned"
        DONE = "done", "done"
        FAILED = "failed", "failed"

    run = models.ForeignKey(ImportRun, on_delete=models.CASCADE, related_name="chunks")
    start = models.PositiveIntegerField(help_text="First row, counted from 0.")
    stop = models.PositiveIntegerField(help_text="The row after the last.")
    offset = models.PositiveBigIntegerField(help_text="Where the first row begins in the file, in bytes.")
    line = models.PositiveIntegerField(help_text="The line on which the first row begins, counted from 1.")
    state = models.CharField(max_length=16, choices=State.choices, default=State.PLANNED)
    imported = models.PositiveIntegerField(default=0)
    error = models.TextField(blank=True)

    class Meta:
        ordering = ["start"]
        constraints = [models.UniqueConstraint(fields=["run", "start"], name="import_chunk_once")]

    def __str__(self) -> str:
        return f"rows {self.start} to {self.stop} of import {self.run_id} ({self.state})"


class RejectedRow(models.Model):
    """A row that was not imported, and why."""

    class Kind(models.TextChoices):
        COLUMN_COUNT = "column_count", "wrong number of columns"
        ENCODING = "encoding", "not UTF-8"
        MISSING_SKU = "missing_sku", "no SKU"
        BAD_TEXT = "bad_text", "text missing or too long"
        BAD_PRICE = "bad_price", "price not usable"
        BAD_STOCK = "bad_stock", "stock not usable"
        NEGATIVE_STOCK = "negative_stock", "negative stock"
        DUPLICATE_SKU = "duplicate_sku", "SKU for the second time"

    run = models.ForeignKey(ImportRun, on_delete=models.CASCADE, related_name="rejected_rows")
    line = models.PositiveIntegerField(
        help_text="Counted from 1, the header included, as an editor shows it."
    )
    kind = models.CharField(max_length=16, choices=Kind.choices, db_index=True)
    reason = models.CharField(max_length=300)
    raw = models.TextField(help_text="The row as it is in the file.")

    class Meta:
        ordering = ["run", "line"]
        constraints = [models.UniqueConstraint(fields=["run", "line"], name="rejected_row_once")]

    def __str__(self) -> str:
        return f"line {self.line}: {self.reason}"


class Product(models.Model):
    """What is imported."""

    sku = models.CharField(max_length=64, unique=True)
    name = models.CharField(max_length=200)
    price = models.DecimalField(max_digits=10, decimal_places=2)
    stock = models.PositiveIntegerField()
    updated_at = models.DateTimeField()

    class Meta:
        ordering = ["sku"]

    def __str__(self) -> str:
        return f"{self.sku} {self.name}"
