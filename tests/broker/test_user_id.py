"""The property user_id: the publisher's own name, or any that an impersonator likes."""

from __future__ import annotations

from pathlib import Path

import leveret
from leveret.amqp_frames.methods import BasicAck, ChannelClose
from leveret.amqp_frames.properties import Properties
from leveret.commands.offline_accounts import offline_accounts
from leveret.configuration import Configuration
from leveret.open_accounts import new_password_hash
from wire import Client, publish

ALL = {"configure": ".*", "write": ".*", "read": ".*"}
TAGS = {"plain": ["administrator"], "double": ["impersonator"]}


def test_only_an_impersonator_s_messages_may_name_another_user(tmp_path: Path) -> None:
    configuration = Configuration(
        data_dir=tmp_path, port=0, log_level="error", password_hash_cost=10
    )
    with offline_accounts(configuration) as offline:
        password_hash = new_password_hash("secret", 10)
        for user, tags in TAGS.items():
            offline.change("user add", {"user": user, "password_hash": password_hash, "tags": tags})
            offline.change("permissions set", {"user": user, "vhost": "/"} | ALL)
    with leveret.Broker(configuration) as broker:
        for user in TAGS:
            with Client(broker.host, broker.port) as client:
                client.log_in(user=user, password="secret").open_channel(1, confirms=True)
                client.send(publish("nowhere", b"", Properties(user_id=user)))
                client.expect(1, BasicAck(1, False))
                client.send(publish("nowhere", b"", Properties(user_id="guest")))
                if user == "double":
                    client.expect(1, BasicAck(2, False))
                else:
                    text = (
                        "PRECONDITION_FAILED - user_id property set to 'guest' "
                        "but authenticated user was 'plain'"
                    )
                    client.expect(1, ChannelClose(406, text, 60, 40))
