"""RabbitMQ and Leveret, side by side, and what compares their answers to one script."""

from __future__ import annotations

import difflib
import ssl
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pytest
from command_socket import ScriptEnded
from leveret.amqp_frames.methods import (
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ExchangeDelete,
    QueueDelete,
)
from scripted_session import Session
from standing import STANDING

Script = Callable[[Session], None]
Hunk = tuple[list[str], list[str]]
Transcripts = dict[str, tuple[list[str], list[str]]]

LOCKED = 405
DELETE_ATTEMPTS_MAX = 100
SCRIPTS_AT_ONCE = 16


class Address(NamedTuple):
    """Where a broker of this machine is, and how it is made to believe that its disk is full.

    `http_port` is its management's.
    """

    port: int
    tls_port: int = 0
    alarm: Callable[[bool], None] | None = None
    http_port: int = 0


class BothBrokers:
    """The addresses of the two, and how a script is run against each."""

    def __init__(self, *addresses: Address) -> None:
        """RabbitMQ's address, and Leveret's."""
        self.addresses = addresses

    def compare(self, name: str, script: Script, context: ssl.SSLContext | None = None) -> None:
        """Run the script against both; their answers differ in what is known to, and no more."""
        self.judge(name, self.transcripts(script, context))

    def transcripts(
        self, script: Script, context: ssl.SSLContext | None = None
    ) -> tuple[list[str], list[str]]:
        """RabbitMQ's answers and Leveret's, over TLS if there is a context."""
        theirs, ours = (transcript_of(script, each, context) for each in self.addresses)
        return theirs, ours

    def transcripts_at_once(self, scripts: Mapping[str, Script]) -> Transcripts:
        """For scripts that share nothing and in which a broker takes its time."""
        with ThreadPoolExecutor(SCRIPTS_AT_ONCE) as pool:
            return dict(zip(scripts, pool.map(self.transcripts, scripts.values()), strict=True))

    def judge(self, name: str, transcripts: tuple[list[str], list[str]]) -> None:
        """They must differ as `standing` says, and in nothing else."""
        theirs, ours = transcripts
        expected = [(each.rabbitmq, each.leveret) for each in STANDING if each.script == name]
        if hunks(theirs, ours) != expected:
            pytest.fail(
                f"RabbitMQ (-) and Leveret (+) answer otherwise than is known:\n"
                f"{shown(theirs, ours)}",
                pytrace=False,
            )


def compared(script: Script) -> Callable[[BothBrokers], None]:
    """A test of this script."""

    def test(both: BothBrokers) -> None:
        both.compare(script.__name__, script)

    test.__name__ = script.__name__
    test.__doc__ = script.__doc__
    return test


def transcript_of(
    script: Script, address: Address, context: ssl.SSLContext | None = None
) -> list[str]:
    """The broker's answers to the script, which leaves nothing behind there."""
    port = address.port if context is None else address.tls_port
    session = Session(port, context, address.alarm, address.http_port)
    try:
        script(session)
        session.leftovers()
    except ScriptEnded:
        pass
    finally:
        session.close()
        clear(session)
    return session.lines


def clear(session: Session) -> None:
    """Delete what the script declared, once its connections have gone."""
    if not session.queues and not session.exchanges:
        return
    names = [QueueDelete(queue=name) for name in session.queues if name]
    mine = [each for each in session.exchanges if each and not each.startswith("amq.")]
    deletes = [*names, *(ExchangeDelete(exchange=name) for name in mine)]
    sweeper = Session(session.port, session.context)
    channel = sweeper.channel()
    for delete in deletes:
        for _ in range(DELETE_ATTEMPTS_MAX):
            channel.send(delete)
            answer = channel.connection.next_command(1).method
            if not isinstance(answer, ChannelClose):
                break
            # An exclusive queue whose connection is only just going.
            assert answer.reply_code == LOCKED, answer
            channel.send(ChannelCloseOk(), ChannelOpen())
            channel.connection.next_command(1)
    sweeper.close()


def hunks(theirs: list[str], ours: list[str]) -> list[Hunk]:
    """The places where they differ."""
    matcher = difflib.SequenceMatcher(None, theirs, ours, autojunk=False)
    return [(theirs[a:b], ours[c:d]) for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal"]


def shown(theirs: list[str], ours: list[str]) -> str:
    return "\n".join(difflib.ndiff(theirs, ours))
