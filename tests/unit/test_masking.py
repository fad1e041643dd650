"""No credential survives masking, however it is written into a URL, a list, a query or a nested option."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from taskyard.masking import MASK, is_secret_name, mask, mask_url

# What makes a URL hard to read, in the middle of something to look for.
AWKWARD = "@/:;%?#&=+~!$,|[]{}\"'\\*.-_ "
LETTERS = "ghijklmnopqrstuvwxyzGHIJKLMNOPQRSTUVWXYZ"
# Two marks around an awkward middle: neither may be seen, so neither half of a cut password may be.
MARK_LEFT, MARK_RIGHT = "Zleft9", "Zright7"

raw_middles = st.text(alphabet=AWKWARD.replace(" ", "") + LETTERS, max_size=8)
any_middles = st.text(alphabet=AWKWARD + LETTERS + "äß€\x00\n", max_size=8)
users = st.text(alphabet=LETTERS + "0123456789._-", max_size=8)
schemes = st.sampled_from(["redis", "rediss", "sentinel", "amqp", "postgres", "redis+socket", "https"])


def secret_around(middle: str) -> str:
    return f"{MARK_LEFT}{middle}{MARK_RIGHT}"


def assert_hidden(shown: Any) -> None:
    text = repr(shown)
    assert MARK_LEFT not in text, text
    assert MARK_RIGHT not in text, text


@given(scheme=schemes, user=users, middle=any_middles)
def test_a_percent_encoded_password_is_masked_and_the_rest_is_kept(scheme, user, middle):
    password = quote(secret_around(middle), safe="")

    shown = mask_url(f"{scheme}://{user}:{password}@broker.example:6379/0?health_check_interval=5")

    assert shown == f"{scheme}://{user}:{MASK}@broker.example:6379/0?health_check_interval=5"


@given(scheme=schemes, user=users, middle=raw_middles)
@example(scheme="redis", user="", middle="@")
@example(scheme="redis", user="", middle="/")
@example(scheme="redis", user="u", middle=":")
@example(scheme="redis", user="u", middle=";")
@example(scheme="redis", user="u", middle="%")
@example(scheme="redis", user="u", middle="?")
@example(scheme="redis", user="u", middle="#")
@example(scheme="redis", user="u", middle="?token=x@")
def test_a_raw_password_is_masked_even_where_it_breaks_the_url(scheme, user, middle):
    shown = mask_url(f"cannot connect to {scheme}://{user}:{secret_around(middle)}@broker:6379/0 now")

    assert_hidden(shown)
    assert shown.startswith("cannot connect to ")
    # a password that looks like a secret parameter hides the host too
    assert shown.endswith(" now" if "=" in middle else "@broker:6379/0 now")


@given(
    middles=st.lists(raw_middles, min_size=2, max_size=4), separator=st.sampled_from([";", ",", "|", " ; "])
)
def test_every_address_of_a_failover_list_is_masked_and_every_host_is_kept(middles, separator):
    urls = [f"redis://:{secret_around(middle)}@host{place}:6379/0" for place, middle in enumerate(middles)]

    shown = mask_url(separator.join(urls))

    assert_hidden(shown)
    assert shown == separator.join(f"redis://:{MASK}@host{place}:6379/0" for place in range(len(urls)))


@pytest.mark.parametrize(
    ("given_url", "shown"),
    [
        ("redis://user:hunter2@h:6379/0", f"redis://user:{MASK}@h:6379/0"),
        ("redis://:hunter2@h:6379/0", f"redis://:{MASK}@h:6379/0"),
        # no colon: a token, or a password whose colon was forgotten
        ("https://hunter2@h/x", f"https://{MASK}@h/x"),
        ("redis://h:6379/0", "redis://h:6379/0"),
        ("redis://h", "redis://h"),
        ("embedded://", "embedded://"),
        ("redis:/:hunter2@h", f"redis:/:{MASK}@h"),
        ("//:hunter2@h", f"//:{MASK}@h"),
        ("://u:hunter2@h", f"://u:{MASK}@h"),
        (":hunter2@h:6379", f":{MASK}@h:6379"),
        ("user:hunter2@h:6379", f"user:{MASK}@h:6379"),
        ("redis://h/0?password=hunter2&db=1", f"redis://h/0?password={MASK}&db=1"),
        ("redis://h/0?db=1&ssl_password=hunter2", f"redis://h/0?db=1&ssl_password={MASK}"),
        ("redis://h/0?password=hunter2;redis://h2/0", f"redis://h/0?password={MASK};redis://h2/0"),
        ("redis://h/0?password=hunter2;more", f"redis://h/0?password={MASK}"),
        ("redis://h/0?password=", "redis://h/0?password="),
        ("host=h user=u password=hunter2 dbname=d", f"host=h user=u password={MASK} dbname=d"),
        ("host=h password='hun ter2' dbname=d", f"host=h password={MASK} dbname=d"),
        ("sb://h/;SharedAccessKey=hunter2=", f"sb://h/;SharedAccessKey={MASK}"),
        ("write to ops@example.com about it", "write to ops@example.com about it"),
        ("at 12:30 the server said: no", "at 12:30 the server said: no"),
        ("Exponential(max_retries=3, factor=2)", "Exponential(max_retries=3, factor=2)"),
    ],
)
def test_known_shapes(given_url, shown):
    assert mask_url(given_url) == shown


@given(name=st.sampled_from(["password", "token", "api_key", "secret", "sslpassword"]), middle=raw_middles)
def test_a_secret_parameter_is_masked(name, middle):
    value = secret_around(middle.replace("&", ""))

    assert_hidden(mask_url(f"redis://h:6379/0?db=1&{name}={value}"))


@given(st.text())
def test_masking_is_idempotent_and_takes_any_text(text):
    once = mask_url(text)

    assert mask_url(once) == once


@pytest.mark.parametrize(
    "name",
    [
        "password", "PASSWORD", "redis_password", "passwd", "ssl_passphrase", "pwd", "SECRET_KEY", "auth",
        "Authorization", "access_token", "api_key", "apikey", "X-Api-Key", "aws_secret_access_key",
        "AccessKey", "private_key", "sentry_dsn", "credentials", "signature",
    ],
)  # fmt: skip
def test_names_of_secrets(name):
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name", ["broker_url", "host", "key_prefix", "queue", "timeout", "user", "visibility_timeout"]
)
def test_names_that_are_no_secrets(name):
    assert not is_secret_name(name)


secrets = raw_middles.map(secret_around)
leaves = st.one_of(
    secrets.map(lambda secret: f"redis://:{secret}@h"),
    secrets.map(lambda secret: f"redis://:{secret}@h".encode()),
    secrets.map(lambda secret: {"password": secret}),
    secrets.map(lambda secret: {"auth": {"user": "u", "value": [secret]}}),
    secrets.map(lambda secret: {"tokens": [secret, secret]}),
    secrets.map(lambda secret: {f"redis://:{secret}@h": 1}),
)
nested = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner),
        st.dictionaries(st.sampled_from(["a", "options", "hosts"]), inner, max_size=3),
    ),
    max_leaves=8,
)


@given(nested)
def test_no_secret_survives_in_nested_options(options):
    assert_hidden(mask(options))


def test_the_rest_of_the_options_is_kept():
    options = {"a": 1, "b": [True, None, 2.5], "c": {"d": ("x", "y")}, 7: "z"}

    assert mask(options) == {"a": 1, "b": [True, None, 2.5], "c": {"d": ["x", "y"]}, 7: "z"}


@pytest.mark.parametrize("value", [None, "", True, False, [], {}])
def test_that_there_is_no_secret_is_no_secret(value):
    assert mask(value, "password") == value


@pytest.mark.parametrize("value", [0, 1, 1234, "x", b"x", ["x"], {"user": "u"}, 1.0])
def test_a_secret_may_be_of_any_type(value):
    assert mask({"password": value}) == {"password": MASK}


def test_masking_changes_nothing_in_place():
    options = {"password": "x", "hosts": ["redis://:x@h"]}

    mask(options)

    assert options == {"password": "x", "hosts": ["redis://:x@h"]}
