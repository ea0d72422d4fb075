"""NSQ's topics and channels, as commands of the broker actor make them, beside AMQP clients."""

from __future__ import annotations

import threading
from pathlib import Path

import leveret
import pytest
from gated_files import GatedFiles
from insides import context_of, wait_until
from leveret.amqp_frames.methods import (
    BasicCancel,
    BasicDeliver,
    BasicGet,
    BasicGetOk,
    BasicNack,
)
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import table_of
from leveret.commands.control_client import ask_broker
from leveret.core.users.access import AccessRefusedError
from leveret.open_accounts import new_password_hash
from timeouts import TIMEOUT_SECONDS
from topic_commands import TopicCommands
from wire import PERSISTENT, Client, publish

HIDDEN = "amq.leveret.nsq.t"


@pytest.fixture
def topic(broker: leveret.Broker) -> TopicCommands:
    return TopicCommands(broker)


def publish_to(
    client: Client, exchange: str, *bodies: bytes, properties: Properties = PERSISTENT
) -> None:
    """With confirms; mandatory, so a message without a queue would be returned."""
    client.send(
        *(publish("", body, properties, exchange=exchange, mandatory=True) for body in bodies)
    )
    first = client.next_seq_no
    client.next_seq_no += len(bodies)
    client.expect_acks(range(first, client.next_seq_no))


def bodies_of(client: Client, queue: str) -> list[bytes]:
    """Get all that is ready."""
    bodies = []
    while (got := client.get(queue, no_ack=True)) is not None:
        bodies.append(got.body)
    return bodies


def paused_with(
    topic: TopicCommands, client: Client, *bodies: bytes, room: int | None = None
) -> None:
    """A paused topic with the channel c that has kept these; the channel has room for so many."""
    if room is not None:
        limits = table_of({"x-max-length": room, "x-overflow": "reject-publish"})
        client.declare("t:c", durable=True, arguments=limits)
    topic.do("ENSURE_CHANNEL", "c")
    topic.do("PAUSE_TOPIC")
    publish_to(client, "t", *bodies)


def test_the_first_channel_gets_what_was_published_before_it(
    topic: TopicCommands, client: Client
) -> None:
    topic.do("ENSURE_TOPIC")
    publish_to(client, "t", b"1", b"2")
    answer = topic.do("ENSURE_CHANNEL", "c")
    assert answer.queue is not None
    assert answer.queue.name == "t:c"
    assert bodies_of(client, "t:c") == [b"1", b"2"]


def test_a_policy_of_the_channel_holds_for_what_it_takes_over(
    broker: leveret.Broker, topic: TopicCommands, client: Client
) -> None:
    given = {"vhost": "/", "name": "p", "pattern": "", "definition": {"max-length": 1}}
    ask_broker(broker.configuration.data_dir, "policy set", given)
    topic.do("ENSURE_TOPIC")
    # No policy applies to the broker's own queue.
    publish_to(client, "t", b"1", b"2", b"3")
    topic.do("ENSURE_CHANNEL", "c")
    assert bodies_of(client, "t:c") == [b"3"]


def kept_count(broker: leveret.Broker) -> int:
    """How many messages the topic's hidden queue has; -1 if there is none."""
    hidden = context_of(broker).vhosts["/"].table.find_hidden_queue(HIDDEN)
    return -1 if hidden is None else hidden.rules.ready.message_count


def test_a_paused_topic_moves_what_it_has_kept_to_each_channel_when_it_is_resumed(
    broker: leveret.Broker, topic: TopicCommands, client: Client
) -> None:
    topic.do("ENSURE_CHANNEL", "c")
    publish_to(client, "t", b"before")
    topic.do("PAUSE_TOPIC")
    publish_to(client, "t", b"1", b"2", b"3")
    topic.do("ENSURE_CHANNEL", "d")
    assert bodies_of(client, "t:c") == [b"before"]
    assert bodies_of(client, "t:d") == []
    assert kept_count(broker) == 3
    topic.do("RESUME_TOPIC")
    wait_until(lambda: kept_count(broker) == -1)
    assert bodies_of(client, "t:c") == [b"1", b"2", b"3"]
    assert bodies_of(client, "t:d") == [b"1", b"2", b"3"]


def test_what_a_topic_has_kept_moves_to_a_queue_that_amqp_declared(
    broker: leveret.Broker, topic: TopicCommands, client: Client
) -> None:
    topic.do("ENSURE_TOPIC")
    publish_to(client, "t", b"1", b"2", b"3")
    client.declare("t:c", durable=True, arguments=table_of({"x-max-length": 2}))
    topic.do("ENSURE_CHANNEL", "c")
    wait_until(lambda: kept_count(broker) == -1)
    assert bodies_of(client, "t:c") == [b"2", b"3"]


def test_a_refused_message_is_moved_when_the_channel_has_room(
    broker: leveret.Broker, topic: TopicCommands, client: Client
) -> None:
    paused_with(topic, client, b"1", b"2", b"3", room=2)
    topic.do("RESUME_TOPIC")
    client.wait_for_counts("t:c", (2, 0))
    bodies: list[bytes] = []
    # The third is refused until there is room; the mover tries again by its clock.
    wait_until(lambda: bool(bodies.extend(bodies_of(client, "t:c")) or len(bodies) == 3))
    assert bodies == [b"1", b"2", b"3"]
    wait_until(lambda: kept_count(broker) == -1)


def test_a_topic_paused_again_keeps_what_has_not_moved(
    broker: leveret.Broker, topic: TopicCommands, client: Client
) -> None:
    paused_with(topic, client, b"1", room=0)
    # Into nothing: the channel refuses it for ever.
    topic.do("RESUME_TOPIC")
    topic.do("PAUSE_TOPIC")
    publish_to(client, "t", b"2")
    wait_until(lambda: kept_count(broker) == 2)
    topic.do("DELETE_CHANNEL", "c")
    topic.do("RESUME_TOPIC")
    topic.do("ENSURE_CHANNEL", "d")
    assert bodies_of(client, "t:d") == [b"1", b"2"]


def test_what_has_not_moved_is_the_topics_again_when_its_last_channel_goes(
    broker: leveret.Broker, topic: TopicCommands, client: Client
) -> None:
    paused_with(topic, client, b"1", room=0)
    topic.do("RESUME_TOPIC")
    topic.do("DELETE_CHANNEL", "c")
    wait_until(lambda: kept_count(broker) == 1)
    topic.do("ENSURE_CHANNEL", "d")
    assert bodies_of(client, "t:d") == [b"1"]


def test_a_durable_topic_has_its_hidden_queue_again_when_an_ephemeral_channel_goes(
    broker: leveret.Broker, topic: TopicCommands, client: Client
) -> None:
    topic.do("ENSURE_CHANNEL", "c#ephemeral")
    client.consume("t:c#ephemeral", "tag")
    client.ask(1, BasicCancel("tag"))
    wait_until(lambda: kept_count(broker) == 0)
    publish_to(client, "t", b"1")
    topic.do("ENSURE_CHANNEL", "c")
    assert bodies_of(client, "t:c") == [b"1"]


def test_an_ephemeral_topic_goes_with_the_consumer_of_its_last_channel(
    broker: leveret.Broker, client: Client
) -> None:
    topic = TopicCommands(broker, "t#ephemeral")
    table = context_of(broker).vhosts["/"].table
    topic.do("ENSURE_TOPIC")
    publish_to(client, "t#ephemeral", b"1")
    queue = topic.do("ENSURE_CHANNEL", "c#ephemeral").queue
    assert queue is not None
    client.consume(queue.name, "tag", no_ack=True)
    assert client.expect_type(1, BasicDeliver).exchange == "t#ephemeral"
    assert client.read_content(1).body == b"1"
    client.ask(1, BasicCancel("tag"))
    wait_until(lambda: not table.hidden_queues() and table.find_exchange("t#ephemeral") is None)


def test_topics_that_are_asked_for_at_once_are_made_once(
    broker: leveret.Broker, topic: TopicCommands
) -> None:
    for _ in range(3):
        topic.do("ENSURE_TOPIC")
        topic.do("ENSURE_CHANNEL", "c")
    assert kept_count(broker) == -1


def test_a_user_needs_permission_to_make_what_is_not_there(
    broker: leveret.Broker, topic: TopicCommands
) -> None:
    data_dir = broker.configuration.data_dir
    patterns = {"configure": "^t$", "write": "", "read": ""}
    password_hash = new_password_hash("secret", 10)
    ask_broker(data_dir, "user add", {"user": "u", "password_hash": password_hash, "tags": []})
    ask_broker(data_dir, "permissions set", {"vhost": "/", "user": "u"} | patterns)
    users = TopicCommands(broker, user="u")
    users.do("ENSURE_TOPIC")
    refusal = users.ask("ENSURE_CHANNEL", "c").error
    assert isinstance(refusal, AccessRefusedError)
    assert "configure access to queue 't:c' in vhost '/' refused" in refusal.reply_text
    assert kept_count(broker) == 0
    topic.do("ENSURE_CHANNEL", "c")
    users.do("ENSURE_CHANNEL", "c")


def test_an_emptied_channel_keeps_only_what_an_amqp_consumer_holds(
    topic: TopicCommands, client: Client
) -> None:
    topic.do("ENSURE_CHANNEL", "c")
    publish_to(client, "t", b"1", b"2", b"3")
    held = client.get("t:c")
    assert held is not None
    answer = topic.do("EMPTY_CHANNEL", "c")
    assert answer.queue is not None
    assert answer.queue.name == "t:c"
    assert client.counts("t:c") == (0, 0)
    client.send_methods(1, BasicNack(held.delivery_tag, requeue=True))
    assert bodies_of(client, "t:c") == [b"1"]


def test_an_emptied_topic_loses_what_it_kept_and_its_channels_nothing(
    broker: leveret.Broker, topic: TopicCommands, client: Client
) -> None:
    topic.do("ENSURE_CHANNEL", "c")
    publish_to(client, "t", b"1")
    # It keeps nothing: no mistake.
    topic.do("EMPTY_TOPIC")
    topic.do("PAUSE_TOPIC")
    publish_to(client, "t", b"2")
    topic.do("EMPTY_TOPIC")
    assert kept_count(broker) == 0
    topic.do("RESUME_TOPIC")
    assert bodies_of(client, "t:c") == [b"1"]


def test_a_channel_with_limits_dead_letters_and_deduplication_keeps_to_them(
    broker: leveret.Broker, topic: TopicCommands, client: Client
) -> None:
    client.declare("dead")
    arguments = {
        "x-max-length": 2,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "dead",
        "x-dedup-window": 10,
    }
    client.declare("t:c", durable=True, arguments=table_of(arguments))
    topic.do("ENSURE_CHANNEL", "c")
    topic.do("ENSURE_CHANNEL", "d")
    repeated = PERSISTENT._replace(headers=table_of({"x-dedup-producer": "p", "x-dedup-id": "1"}))
    publish_to(client, "t", b"1", b"2", properties=repeated)
    publish_to(client, "t", b"3", b"4")
    assert bodies_of(client, "t:c") == [b"3", b"4"]
    assert bodies_of(client, "t:d") == [b"1", b"2", b"3", b"4"]
    wait_until(lambda: client.counts("dead") == (1, 0))
    assert bodies_of(client, "dead") == [b"1"]


def test_a_channel_of_a_policy_expires_what_it_has_and_other_channels_do_not(
    broker: leveret.Broker, topic: TopicCommands, client: Client
) -> None:
    given = {"vhost": "/", "name": "p", "pattern": "^t:short$", "definition": {"message-ttl": 0}}
    ask_broker(broker.configuration.data_dir, "policy set", given)
    topic.do("ENSURE_CHANNEL", "short")
    topic.do("ENSURE_CHANNEL", "long")
    publish_to(client, "t", b"1")
    assert bodies_of(client, "t:short") == []
    assert bodies_of(client, "t:long") == [b"1"]


def test_what_moves_on_keeps_its_properties_and_the_rest_of_its_time(
    broker: leveret.Broker, topic: TopicCommands, client: Client
) -> None:
    topic.do("ENSURE_CHANNEL", "c")
    topic.do("PAUSE_TOPIC")
    properties = PERSISTENT._replace(message_id="m", headers=table_of({"h": 1}), priority=7)
    publish_to(client, "t", b"body", properties=properties)
    # It expires in the hidden queue or in the channel, never later.
    publish_to(client, "t", b"expired", properties=PERSISTENT._replace(expiration="1"))
    topic.do("RESUME_TOPIC")
    wait_until(lambda: kept_count(broker) == -1)
    assert isinstance(client.ask(1, BasicGet(queue="t:c", no_ack=True)), BasicGetOk)
    assert client.read_content(1)[:2] == (properties, b"body")
    assert bodies_of(client, "t:c") == []


# --- A start


def started(tmp_path: Path) -> leveret.Broker:
    return leveret.Broker(
        data_dir=tmp_path / "data", port=0, log_level="error", password_hash_cost=10
    )


def connected(broker: leveret.Broker) -> Client:
    client = Client(broker.host, broker.port).log_in()
    client.open_channel(1, confirms=True)
    return client


def test_a_topic_is_paused_and_keeps_its_messages_over_a_restart(tmp_path: Path) -> None:
    with started(tmp_path) as broker, connected(broker) as client:
        topic = TopicCommands(broker)
        paused_with(topic, client, b"1")
    with started(tmp_path) as broker, connected(broker) as client:
        topic = TopicCommands(broker)
        publish_to(client, "t", b"2")
        topic.do("ENSURE_CHANNEL", "d")
        assert bodies_of(client, "t:c") == bodies_of(client, "t:d") == []
        topic.do("RESUME_TOPIC")
        wait_until(lambda: kept_count(broker) == -1)
        assert bodies_of(client, "t:c") == bodies_of(client, "t:d") == [b"1", b"2"]


def test_what_has_not_moved_moves_on_behind_a_restart(tmp_path: Path) -> None:
    with started(tmp_path) as broker, connected(broker) as client:
        topic = TopicCommands(broker)
        paused_with(topic, client, b"1", b"2", room=1)
        topic.do("RESUME_TOPIC")
        client.wait_for_counts("t:c", (1, 0))
    with started(tmp_path) as broker, connected(broker) as client:
        bodies: list[bytes] = []
        wait_until(lambda: bool(bodies.extend(bodies_of(client, "t:c")) or b"2" in bodies))
        # At least once: the round was not over, so the first may come again.
        assert bodies[0] == b"1"
        wait_until(lambda: bool(bodies_of(client, "t:c")) or kept_count(broker) == -1)


def test_a_stop_waits_until_what_moves_is_settled(tmp_path: Path) -> None:
    files = GatedFiles()
    broker = leveret.Broker(
        data_dir=tmp_path / "data", port=0, log_level="error", password_hash_cost=10, files=files
    )
    with broker:
        with connected(broker) as client:
            topic = TopicCommands(broker)
            paused_with(topic, client, b"1", b"2", b"3")
        files.hold()
        topic.do("RESUME_TOPIC")
        files.wait_until_syncing()
        stopping = threading.Thread(target=broker.stop)
        stopping.start()
        wait_until(lambda: context_of(broker).is_stopping)
        # The stop looks at this.
        assert context_of(broker).moving
        files.release()
        stopping.join(TIMEOUT_SECONDS)
        assert not stopping.is_alive()
    with started(tmp_path) as broker, connected(broker) as client:
        wait_until(lambda: kept_count(broker) == -1)
        assert bodies_of(client, "t:c") == [b"1", b"2", b"3"]


def test_a_channel_that_took_over_the_hidden_queue_is_there_behind_a_restart(
    tmp_path: Path,
) -> None:
    with started(tmp_path) as broker, connected(broker) as client:
        topic = TopicCommands(broker)
        topic.do("ENSURE_TOPIC")
        publish_to(client, "t", b"1")
        taken = topic.do("ENSURE_CHANNEL", "c").queue
        assert taken is not None
        queue_id = taken.queue_id
    with started(tmp_path) as broker, connected(broker) as client:
        queue = context_of(broker).vhosts["/"].table.find_queue("t:c")
        assert queue is not None
        assert queue.queue_id == queue_id
        publish_to(client, "t", b"2")
        assert bodies_of(client, "t:c") == [b"1", b"2"]
        assert kept_count(broker) == -1
