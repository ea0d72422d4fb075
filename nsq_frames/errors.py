"""Answers to a client that broke a rule of the protocol: nsqd's E_* errors."""

from __future__ import annotations


class NsqError(Exception):
    """An error frame. `text` is its content, code and description.

    If it `is_fatal`, the connection is closed behind the frame.
    """

    def __init__(self, code: str, description: bytes | str, *, is_fatal: bool = True) -> None:
        octets = description.encode() if isinstance(description, str) else description
        self.text = code.encode() + b" " + octets
        self.is_fatal = is_fatal
        super().__init__(self.text.decode("utf-8", "replace"))
