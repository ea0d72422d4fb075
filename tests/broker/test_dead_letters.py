"""Dead-lettering on a live broker: who gets the dead letter, and that nothing is between places."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

import leveret
from gated_files import GatedFiles
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicDeliver,
    BasicGet,
    BasicGetOk,
    BasicNack,
    BasicReject,
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueBind,
    QueueBindOk,
    TxCommit,
    TxCommitOk,
    TxSelect,
    TxSelectOk,
)
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import table_of
from timeouts import TIMEOUT_SECONDS
from wire import PERSISTENT, TRANSIENT, Client, publish


def declare(
    client: Client, source: str = "q", exchange: str = "", key: str | None = "dead", **how: object
) -> None:
    """A queue with a dead-letter exchange, and the queue "dead"."""
    arguments = {"x-dead-letter-exchange": exchange}
    if key is not None:
        arguments["x-dead-letter-routing-key"] = key
    client.declare(source, arguments=table_of(arguments), **how)
    client.declare("dead", **how)


def get(client: Client, queue: str = "dead") -> tuple[BasicGetOk, Properties, bytes]:
    """The next message of the queue, once it is there."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not client.counts(queue)[0]:
        assert time.monotonic() < deadline, f"nothing comes into {queue}"
    answer = client.ask(1, BasicGet(queue=queue, no_ack=True))
    assert isinstance(answer, BasicGetOk), answer
    content = client.read_content(1)
    return answer, content.properties, content.body


def test_a_rejected_message_goes_to_the_dead_letter_exchange(client: Client) -> None:
    assert client.ask(1, ExchangeDeclare(exchange="dlx", type="topic")) == ExchangeDeclareOk()
    declare(client, exchange="dlx", key=None)
    assert client.ask(1, QueueBind(queue="dead", exchange="dlx", routing_key="#")) == QueueBindOk()
    client.publish_all("q", b"1", properties=Properties(content_type="text", message_id="m"))
    before = int(time.time())
    got = client.get("q")
    client.send_methods(1, BasicReject(got.delivery_tag, False))
    answer, properties, body = get(client)
    assert (answer.exchange, answer.routing_key, answer.redelivered, body) == (
        "dlx",
        "q",
        False,
        b"1",
    )
    assert (properties.content_type, properties.message_id) == ("text", "m")
    (death,) = properties.headers["x-death"].value
    died_at = death.value.pop("time")
    assert died_at.kind == "timestamp"
    assert before <= died_at.value <= time.time()
    assert death.value == table_of(
        {"reason": "rejected", "queue": "q", "exchange": "", "routing-keys": ["q"]}
    ) | {"count": death.value["count"]}
    assert death.value["count"] == ("long", 1)
    assert client.counts("q") == (0, 0)


def test_nacked_messages_arrive_in_their_order_and_others_stay(client: Client) -> None:
    declare(client)
    client.publish_all("q", *(b"%d" % number for number in range(6)))
    client.consume("q")
    for number in range(6):
        client.expect_delivery(BasicDeliver("c", number + 1, False, "", "q"), b"%d" % number)
    client.send_methods(1, BasicAck(2), BasicNack(4, True, False), BasicNack(5, False, True))
    client.expect_delivery(BasicDeliver("c", 7, True, "", "q"), b"4")
    assert [get(client)[2] for _ in range(3)] == [b"0", b"2", b"3"]
    assert client.counts("dead") == (0, 0)


def test_more_than_one_round_of_dead_letters_keep_their_order(client: Client) -> None:
    declare(client)
    client.publish_all("q", *(b"%d" % number for number in range(1000)))
    for number in range(1000):
        assert client.get("q").body == b"%d" % number
    client.send_methods(1, BasicNack(0, True, False))
    client.wait_for_counts("dead", (1000, 0))
    assert [get(client)[2] for _ in range(1000)] == [b"%d" % number for number in range(1000)]


def test_without_an_exchange_of_that_name_a_rejected_message_is_gone(client: Client) -> None:
    declare(client, exchange="missing")
    client.publish_all("q", b"1", b"2")
    client.send_methods(1, BasicReject(client.get("q").delivery_tag, False))
    client.nothing_more()
    assert client.get("q", no_ack=True).body == b"2"
    assert client.counts("dead") == (0, 0)


def test_an_unroutable_dead_letter_of_a_mandatory_message_is_not_returned(client: Client) -> None:
    declare(client, key="nowhere")
    client.send(publish("q", b"1", mandatory=True))
    client.expect(1, BasicAck(1, False))
    client.send_methods(1, BasicReject(client.get("q").delivery_tag, False))
    client.nothing_more()
    assert client.counts("q") == (0, 0)


def test_a_message_that_is_rejected_again_and_again_goes_round(client: Client) -> None:
    # Rejected by a consumer each time, so it is no cycle that the broker has to break.
    declare(client, key="q")
    client.publish_all("q", b"1")
    for _ in range(3):
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while (got := client.get("q")) is None:
            assert time.monotonic() < deadline
        client.send_methods(1, BasicReject(got.delivery_tag, False))
    _, properties, _ = get(client, "q")
    (death,) = properties.headers["x-death"].value
    assert death.value["count"] == ("long", 3)
    assert properties.headers["x-first-death-queue"].value == "q"


def test_the_original_stays_in_the_journal_until_the_dead_letter_is_on_disk(
    client: Client, files: GatedFiles, tmp_path: Path
) -> None:
    declare(client, durable=True)
    client.publish_all("q", b"1", properties=PERSISTENT)
    got = client.get("q")
    files.hold()
    client.send_methods(1, BasicReject(got.delivery_tag, False))
    # In memory it is in the dead letter queue, while its sync has not come back.
    client.wait_for_counts("dead", (1, 0))
    files.wait_until_syncing()
    crashed = tmp_path / "crashed"
    shutil.copytree(tmp_path / "data", crashed, ignore=shutil.ignore_patterns("*.sock"))
    files.release()
    with (
        leveret.Broker(data_dir=crashed, port=0, log_level="error") as restarted,
        Client(restarted.host, restarted.port) as other,
    ):
        other.log_in().open_channel(1)
        got = other.get("q")
        assert (got.body, got.redelivered) == (b"1", True)


def test_dead_letters_and_settled_originals_survive_a_restart(tmp_path: Path) -> None:
    data_dir = tmp_path / "kept"
    with (
        leveret.Broker(data_dir=data_dir, port=0, log_level="error") as broker,
        Client(broker.host, broker.port) as client,
    ):
        client.log_in().open_channel(1, confirms=True)
        declare(client, durable=True)
        client.publish_all("q", b"1", b"2", properties=PERSISTENT)
        client.publish_all("q", b"transient", properties=TRANSIENT)
        for _ in range(3):
            client.get("q")
        client.send_methods(1, BasicNack(1, False, False), BasicNack(3, False, False))
        client.wait_for_counts("dead", (2, 0))
    with (
        leveret.Broker(data_dir=data_dir, port=0, log_level="error") as broker,
        Client(broker.host, broker.port) as client,
    ):
        client.log_in().open_channel(1)
        assert (client.counts("q"), client.counts("dead")) == ((1, 0), (1, 0))
        assert client.get("q").body == b"2"
        _, properties, body = get(client)
        assert body == b"1"
        assert properties.delivery_mode == 2
        assert properties.headers["x-first-death-reason"].value == "rejected"


def test_what_expires_behind_a_message_is_dead_lettered_when_that_is_got(client: Client) -> None:
    declare(client)
    client.publish_all("q", b"first")
    client.publish_all("q", b"second", b"third", properties=Properties(expiration="1"))
    # Longer than the millisecond that the others have, but they wait behind the first.
    threading.Event().wait(0.01)
    got = client.get("q")
    assert (got.body, got.left) == (b"first", 0)
    answers = [get(client) for _ in range(2)]
    assert [body for _, _, body in answers] == [b"second", b"third"]
    for _, properties, _ in answers:
        (death,) = properties.headers["x-death"].value
        assert death.value["reason"].value == "expired"
        assert death.value["original-expiration"].value == "1"
        assert properties.expiration is None


def test_a_rejection_in_a_transaction_counts_when_it_is_committed(
    client: Client, connect: Callable[..., Client]
) -> None:
    declare(client)
    client.publish_all("q", b"1")
    other = connect()
    other.open_channel(1)
    assert other.ask(1, TxSelect()) == TxSelectOk()
    got = other.get("q")
    other.send_methods(1, BasicReject(got.delivery_tag, False))
    other.nothing_more()
    assert client.counts("dead") == (0, 0)
    assert other.ask(1, TxCommit()) == TxCommitOk()
    assert get(client)[2] == b"1"
