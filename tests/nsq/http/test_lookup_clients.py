"""A client that is configured with the addresses of nsqlookupd finds this broker."""

from __future__ import annotations

import asyncio
from typing import Any

import leveret
import nsq
from nsq_calls import post
from timeouts import TIMEOUT_SECONDS


def test_a_pynsq_reader_finds_the_broker(broker: leveret.Broker) -> None:
    post(broker, "/mpub?topic=t", b"one\ntwo")
    got: list[bytes] = []

    async def main() -> None:
        over = asyncio.Event()

        def handle(message: Any) -> bool:
            got.append(message.body)
            if len(got) == 2:
                over.set()
            return True

        reader = nsq.Reader(
            "t",
            "c",
            lookupd_http_addresses=[f"http://127.0.0.1:{broker.nsq_http_port}"],
            lookupd_poll_interval=1,
            lookupd_poll_jitter=0.0,
            lookupd_request_timeout=int(TIMEOUT_SECONDS),
            message_handler=handle,
            max_in_flight=2,
        )
        await asyncio.wait_for(over.wait(), TIMEOUT_SECONDS)
        reader.close()

    asyncio.run(main())
    assert sorted(got) == [b"one", b"two"]
