"""Commands of NSQ's topics, told to the broker actor as an NSQ connection tells them."""

from __future__ import annotations

import leveret
from collecting_actor import collecting
from insides import context_of, wait_until
from leveret.actors.messages import TopicAnswer, TopicCommand
from leveret.actors.runtime.runtime import tell
from leveret.core.nsq.topics import TopicAction
from leveret.core.users.access import Access


class TopicCommands:
    """Tells commands of one topic as a user who may do everything, unless another is named."""

    def __init__(self, broker: leveret.Broker, topic: str = "t", user: str = "guest") -> None:
        context = context_of(broker)
        self.topic = topic
        self._broker_actor = context.broker
        self._access = Access(context.accounts, user, context.vhosts["/"])

    def ask(self, action: str, channel: str = "") -> TopicAnswer:
        """Carry it out, or hear why not."""
        asking = collecting()
        try:
            command = TopicCommand(
                asking, asking, self._access, TopicAction[action], self.topic, channel, action
            )
            assert tell(self._broker_actor, command)
            answers: list[TopicAnswer] = []
            wait_until(lambda: bool(answers.extend(asking.ask(None)) or answers))
            [answer] = answers
            assert answer.token == action
            return answer
        finally:
            asking.stop()

    def do(self, action: str, channel: str = "") -> TopicAnswer:
        """Carry it out."""
        answer = self.ask(action, channel)
        assert answer.error is None, answer.error
        return answer
