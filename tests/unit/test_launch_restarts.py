"""Restarts back off, and end."""

from taskyard.launch.restarts import MAX_DELAY_SECONDS, RestartHistory, RestartLimits


def test_delays_double_and_the_fifth_exit_within_a_minute_is_the_last():
    history = RestartHistory(RestartLimits())

    assert [history.record_exit(moment) for moment in (0, 1, 2, 3, 4)] == [0.5, 1.0, 2.0, 4.0, None]


def test_exits_that_are_long_past_are_forgotten():
    history = RestartHistory(RestartLimits())
    for moment in (0, 1, 2, 3):
        history.record_exit(moment)

    assert history.record_exit(100) == 0.5


def test_an_exit_exactly_a_window_ago_still_counts():
    history = RestartHistory(RestartLimits(max_exits=2, window_seconds=60))
    history.record_exit(0)

    assert history.record_exit(60) is None


def test_delays_have_a_cap():
    history = RestartHistory(RestartLimits(max_exits=100))

    delays = [history.record_exit(moment) for moment in range(50)]

    assert max(delay for delay in delays if delay is not None) == MAX_DELAY_SECONDS
