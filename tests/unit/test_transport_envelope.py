"""Whatever lies on a queue is either a message that Kombu can take, or named as one that it cannot."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from kombu.transport.virtual import Channel, Message

from taskyard.transport.envelope import decode_envelope, raise_delivery_count
from taskyard.transport.undecodable import UndecodableMessageError
from tests.support.envelopes import envelope

DEEP = "[" * 5_000


class BodyDecoder:
    """What Kombu's message asks its channel for."""

    codecs = Channel.codecs
    decode_body = Channel.decode_body


def encoded(**changes) -> bytes:
    return json.dumps(envelope("id-1", **changes)).encode()


def without(part: str, name: str) -> bytes:
    whole = envelope("id-1")
    del whole[part][name]
    return json.dumps(whole).encode()


def take(raw: bytes) -> Message | None:
    """Return the message as Kombu makes it, None if it is undecodable; all else would end a worker."""
    try:
        whole = decode_envelope(raw)
    except UndecodableMessageError:
        return None
    return Message(whole, channel=BodyDecoder())


def test_a_message_of_a_stock_producer_is_taken():
    message = take(encoded())

    assert message.headers["id"] == "id-1"
    assert message.payload[0] == ["id-1"]


def test_a_message_without_headers_is_taken():
    whole = envelope("id-1")
    del whole["headers"]

    assert take(json.dumps(whole).encode()).headers == {}


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"not json",
        b"\xff\xfe\x00",
        b"\x80\x04\x95\x00",
        b"null",
        b"[]",
        b'"text"',
        b"7",
        b"{}",
        b'{"properties": null}',
        DEEP.encode(),
        encoded(properties=None),
        without("properties", "delivery_tag"),
        without("properties", "delivery_info"),
        encoded(properties={"delivery_info": "text"}),
        encoded(properties={"delivery_info": {}}),
        encoded(properties={"delivery_info": ["routing_key"]}),
        encoded(headers="text"),
        encoded(headers=["text"]),
        encoded().replace(b'"headers": {', b'"headers": null, "x": {'),
        encoded(properties={"body_encoding": "rot13"}),
        encoded(properties={"body_encoding": ["base64"]}),
        encoded().replace(b'"body": "', b'"body": 7, "x": "'),
    ],
    ids=lambda raw: repr(raw[:30]),
)
def test_what_kombu_would_choke_on_is_named(raw):
    with pytest.raises(UndecodableMessageError) as caught:
        decode_envelope(raw)

    assert ": " in str(caught.value)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
changed_messages = st.builds(
    lambda part, value: json.dumps({**envelope("id-1"), part: value}).encode(),
    st.sampled_from(["body", "headers", "properties", "content-type", "content-encoding"]),
    json_values,
)
changed_parts = st.builds(
    lambda part, name, value: json.dumps(
        {**envelope("id-1"), part: {**envelope("id-1")[part], name: value}}
    ).encode(),
    st.sampled_from(["headers", "properties"]),
    st.sampled_from(["delivery_tag", "delivery_info", "body_encoding", "compression", "priority", "id"]),
    json_values,
)
hostile = st.one_of(
    st.binary(max_size=50), json_values.map(lambda v: json.dumps(v).encode()), changed_messages, changed_parts
)


@given(hostile)
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_nothing_on_a_queue_breaks_the_reading(raw):
    take(raw)


def test_a_message_nested_too_deeply_is_not_counted():
    assert raise_delivery_count(DEEP.encode()) == (DEEP.encode(), 0)


@given(hostile)
@example(encoded(headers={"x-delivery-count": float("inf")}))
@example(encoded(headers={"x-delivery-count": float("nan")}))
@example(encoded(headers={"x-delivery-count": -(10**9)}))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_nothing_on_a_queue_breaks_the_counting_of_its_deliveries(raw):
    marked, count = raise_delivery_count(raw)

    assert count >= 0
    assert marked == raw or count >= 1


def test_a_compressed_body_is_left_to_the_consumer():
    raw = encoded(headers={"compression": "gzip"}, body=base64.b64encode(b"no gzip").decode())

    # the consumer rejects it as a message that cannot be decoded, with its headers
    assert take(raw).headers["id"] == "id-1"
