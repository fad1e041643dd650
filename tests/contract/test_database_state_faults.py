"""What a state store in the database does around transactions, and when the database fails."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta

import pytest
from django.db import connections, transaction
from django.db.transaction import TransactionManagementError

from taskyard.clock import SYSTEM_CLOCK
from taskyard.errors import StateUnavailableError
from taskyard.state import held
from taskyard.state.interface import LATE_SECONDS
from tests.support.sites import copy_database
from tests.support.state_stores import StoreSpec, database
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.faults]
BACKENDS = "SELECT pid FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()"


@pytest.fixture
def on_postgresql(postgres, key, django_db_blocker):
    """A PostgreSQL database of this test's own."""
    found = StoreSpec("postgresql", postgres.create_database(key, template="migrated"))
    with django_db_blocker.unblock(), database(found):
        yield found


@pytest.fixture
def on_sqlite(database_template, tmp_path, django_db_blocker):
    """A SQLite database of this test's own."""
    found = StoreSpec("sqlite", copy_database(database_template, tmp_path))
    with django_db_blocker.unblock(), database(found):
        yield found


@pytest.fixture(params=["on_postgresql", "on_sqlite"])
def on_either(request):
    """A database of this test's own, of each kind in turn."""
    return request.getfixturevalue(request.param)


def acquire(store, key="k", owner="a", lease_seconds=60.0):
    return store.acquire(key, owner=owner, holder={}, lease_seconds=lease_seconds)


class TestTransactions:
    def test_a_claim_inside_a_transaction_is_committed_by_itself(self, on_postgresql):
        store = on_postgresql.make()

        with transaction.atomic(using=on_postgresql.alias):
            assert acquire(store).is_granted
            assert store.read("k").owner == "a"
            transaction.set_rollback(True, using=on_postgresql.alias)

        assert store.read("k").owner == "a"
        assert not acquire(store, owner="b").is_granted

    def test_a_claim_inside_a_transaction_leaves_no_connection_behind(self, on_postgresql, postgres, key):
        store = on_postgresql.make()

        with transaction.atomic(using=on_postgresql.alias):
            for number in range(5):
                acquire(store, f"k{number}")

        wait_until(
            lambda: len(postgres.execute("postgres", BACKENDS, key)) == 1,
            timeout_seconds=10,
            what="only the connection of the thread is left",
        )

    def test_a_transaction_of_hand_made_autocommit_counts_too(self, on_postgresql):
        store = on_postgresql.make()
        connections[on_postgresql.alias].set_autocommit(False)

        acquire(store)
        connections[on_postgresql.alias].rollback()
        connections[on_postgresql.alias].set_autocommit(True)

        assert store.read("k").owner == "a"

    def test_sqlite_refuses_a_claim_inside_a_transaction(self, on_sqlite):
        store = on_sqlite.make()

        with (
            pytest.raises(TransactionManagementError, match="inside a transaction on SQLite"),
            transaction.atomic(using=on_sqlite.alias),
        ):
            acquire(store)

        assert store.read("k") is None


def test_the_lease_keeper_closes_its_connection_when_there_is_nothing_to_keep(on_postgresql, postgres, key):
    store = on_postgresql.make()
    claim = acquire(store, lease_seconds=0.3).claim

    def count():
        return len(postgres.execute("postgres", BACKENDS, key))

    with held(store, claim, lease_seconds=0.3):
        wait_until(lambda: count() == 2, timeout_seconds=10, what="the keeper has a connection of its own")

    wait_until(lambda: count() == 1, timeout_seconds=10, what="the keeper has closed it")


class TestFailures:
    def test_a_database_that_is_away_is_said_to_be_so_and_found_again(self, on_postgresql, postgres):
        store = on_postgresql.make()
        held = acquire(store).claim

        with postgres.stopped():
            for operation in (
                lambda: acquire(store),
                lambda: store.renew("k", owner="a", lease_seconds=60),
                lambda: store.read("k"),
                store.ping,
            ):
                with pytest.raises(StateUnavailableError, match=r"postgresql 127\.0\.0\.1 does not answer: "):
                    operation()

        assert store.read("k").fence == held.fence
        assert store.complete("k", owner="a", result=1, remember_seconds=60)

    def test_a_connection_that_the_server_cuts_is_not_noticed(self, on_postgresql, postgres, key):
        store = on_postgresql.make()
        held = acquire(store).claim
        ((pid,),) = postgres.execute("postgres", BACKENDS, key)

        postgres.terminate_backend(pid)

        assert store.read("k").fence == held.fence

    def test_serializable_transactions_are_tried_again(self, on_postgresql, postgres, key):
        postgres.execute(
            "postgres", f"ALTER DATABASE \"{key}\" SET default_transaction_isolation = 'serializable'"
        )
        store, granted = on_postgresql.make(timeout_seconds=20), []

        def contend(owner):
            for number in range(50):
                if acquire(store, f"k{number}", owner).is_granted:
                    granted.append(number)
            store.close_thread()

        with ThreadPoolExecutor(8) as threads:
            list(threads.map(contend, "abcdefgh"))

        assert sorted(granted) == list(range(50))

    def test_missing_tables_are_said_to_be_so(self, on_either):
        store = on_either.make()
        with connections[on_either.alias].cursor() as cursor:
            cursor.execute("DROP TABLE taskyard_claim")

        with pytest.raises(
            StateUnavailableError, match=r"lacks a table .*taskyard_claim.*Run: manage.py migrate"
        ):
            acquire(store)

    def test_a_file_that_is_locked_for_a_moment_is_waited_for(self, on_sqlite, tmp_path):
        store = on_sqlite.make()
        acquire(store)
        with closing(sqlite3.connect(tmp_path / "db.sqlite3", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            connections[on_sqlite.alias].connection.execute("PRAGMA busy_timeout = 0")
            asked = []
            connections[on_sqlite.alias].execute_wrappers.append(
                lambda execute, *call: _unlock_at_second(other, asked) or execute(*call)
            )

            assert store.renew("k", owner="a", lease_seconds=60)

        assert len(asked) == 2

    def test_a_file_that_stays_locked_is_said_to_be_so(self, on_sqlite, tmp_path):
        store = on_sqlite.make(timeout_seconds=0.3)
        acquire(store)
        with closing(sqlite3.connect(tmp_path / "db.sqlite3", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            connections[on_sqlite.alias].connection.execute("PRAGMA busy_timeout = 50")

            with pytest.raises(StateUnavailableError, match="does not answer: database is locked"):
                store.renew("k", owner="a", lease_seconds=60)


def _unlock_at_second(other, asked):
    """Let the first statement find the lock, and the second one not."""
    asked.append(1)
    if len(asked) == 2:
        other.rollback()


class TestPurge:
    def test_what_has_ended_for_good_is_deleted_and_the_rest_is_not(self, on_either):
        from taskyard.models import Claim, Register

        store = on_either.make()
        for key in ("old", "late", "done"):
            acquire(store, key)
        store.complete("done", owner="a", result=1, remember_seconds=60)
        store.put_latest("old", "v", remember_seconds=60)
        store.put_latest("young", "v", remember_seconds=60)
        now = SYSTEM_CLOCK.now()
        claims, registers = (table.objects.using(on_either.alias) for table in (Claim, Register))
        for rows in (claims, registers):
            end(rows, "old", now - timedelta(seconds=LATE_SECONDS + 60))
        end(claims, "late", now - timedelta(seconds=LATE_SECONDS - 60))

        assert store.purge() == 2

        assert set(claims.values_list("key", flat=True)) == {"late", "done"}
        assert store.renew("late", owner="a", lease_seconds=60)
        assert store.read_latest("young") == "v"

    def test_a_fence_grows_also_after_its_row_was_deleted(self, on_either):
        from taskyard.models import Claim

        store = on_either.make()
        before = acquire(store).claim
        Claim.objects.using(on_either.alias).all().delete()

        assert acquire(store, owner="b").claim.fence > before.fence

    def test_claims_are_deleted_by_and_by_without_being_asked_for(self, on_either):
        from taskyard.models import Claim

        store = on_either.make(purge_every=1)
        acquire(store, "old")
        end(Claim.objects.using(on_either.alias), "old", SYSTEM_CLOCK.now() - timedelta(days=1))

        acquire(store, "new")

        assert list(Claim.objects.using(on_either.alias).values_list("key", flat=True)) == ["new"]


def end(rows, key, moment):
    rows.filter(key=key).update(expires_at=moment)


def test_a_lease_ends_by_the_clock_of_the_server(on_postgresql):
    class AheadClock:
        def now(self):
            return SYSTEM_CLOCK.now() + timedelta(days=400)

        def monotonic(self):
            return SYSTEM_CLOCK.monotonic()

    store, ahead = on_postgresql.make(), on_postgresql.make(clock=AheadClock())
    acquire(store, lease_seconds=0.3)

    assert not acquire(ahead, owner="b").is_granted
    wait_until(lambda: acquire(ahead, owner="b").is_granted, timeout_seconds=5, what="the lease has ended")
