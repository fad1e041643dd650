"""A broker that came back without its data has no bindings: a message for a named exchange is not dropped."""

import json

import pytest

from tests.support.envelopes import envelope

pytestmark = pytest.mark.faults


def test_the_retry_of_a_stock_producers_message_finds_its_queue(own_broker, new_site):
    site = new_site(own_broker.url)
    site.start_worker()
    gate, client = site.new_gate(), own_broker.client()
    # the process of the pool declares the queue at its first publish, and never again
    site.tasks["probe.retry"].delay("declares", 1)
    site.history.wait_for_end("declares")
    body = json.dumps([["unbound", str(gate)], {}, {}])
    client.lpush(
        "default", json.dumps(envelope("stock", headers={"task": "probe.retry_after_gate"}, body=body))
    )
    site.history.wait_for_start("unbound")
    assert client.delete("_kombu.binding.default") == 1

    gate.open()

    site.history.wait_for_end("unbound")
    assert len(site.history.starts("unbound")) == 2
