"""Rows as a table for a person to read; `--json` is for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

_GAP = "  "


def table(rows: Sequence[Mapping[str, object]]) -> str:
    """Lines, the first with the columns' names; "none" if there are no rows."""
    if not rows:
        return "none\n"
    columns = list(dict.fromkeys(name for row in rows for name in row))
    lines = [columns, *([_shown(row.get(name)) for name in columns] for row in rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(columns))]
    return "".join(
        _GAP.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        + "\n"
        for line in lines
    )


def listing(values: Mapping[str, object]) -> str:
    """One line for each name and value."""
    width = max(map(len, values))
    lines = [f"{name.ljust(width)}{_GAP}{_shown(value)}" for name, value in values.items()]
    return "".join(line.rstrip() + "\n" for line in lines)


def _shown(value: object) -> str:
    if value is None or value in ({}, []):
        return "-"
    match value:
        case True | False:
            return "yes" if value else "no"
        case list():
            return ",".join(map(_shown, value))
        case dict():
            return printable(json.dumps(value, ensure_ascii=False))
    return printable(str(value))


def printable(text: str) -> str:
    """Names are their clients': none may write control characters to the terminal."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape", "surrogatepass").decode()
        for each in text
    )
