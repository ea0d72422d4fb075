"""A password on its way from the options to the broker: nothing that prints it shows it."""

from __future__ import annotations

MASK = "***"


class Secret:
    """A text that only `reveal` gives; it is pickled as it is, for the workers log in with it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return MASK

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def reveal(self) -> str:
        """Give the text, for the login and nothing else."""
        return self._text
