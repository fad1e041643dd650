"""Publishing inside a transaction: after its commit, never after its rollback, on both databases."""

import pytest

pytestmark = pytest.mark.integration


@pytest.fixture(params=["sqlite", "postgres"])
def console(request, valkey, new_site):
    valkey.client().flushall()
    database_url = None
    if request.param == "postgres":
        name = request.getfixturevalue("postgres_database")
        database_url = request.getfixturevalue("postgres").url(name)
    return new_site(valkey.url, database_url=database_url).start_console()


def test_a_task_goes_out_after_the_commit_and_never_after_a_rollback(console):
    committed = console.value("publish_in_transaction", task="record", args=["a"], commits=True)
    rolled_back = console.value("publish_in_transaction", task="record", args=["b"], commits=False)
    outside = console.run("publish", task="record", args=["c"])

    assert (committed["waiting_inside"], committed["waiting_after"]) == (0, 1)
    assert (rolled_back["waiting_inside"], rolled_back["waiting_after"]) == (1, 1)
    assert committed["task_id"] != rolled_back["task_id"]
    assert outside.error == ()
    assert console.value("waiting") == 2
