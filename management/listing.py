"""Lists of rows: made in slices, and filtered, sorted and paged as RabbitMQ's API does.

The event loop has other work between two slices, so that no listing is felt by publishers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

import re2

from .request import Answer, ApiError, Request, bad_request
from .text import encoded

Row = dict[str, Any]
Source = TypeVar("Source")

SLICE_SECONDS: Final = 0.001
# RabbitMQ's.
PAGE_SIZE: Final = 100
PAGE_SIZE_MAX: Final = 500
_ROWS_BETWEEN_LOOKS: Final = 16


async def rows_of(sources: Iterable[Source], row: Callable[[Source], Row]) -> list[Row]:
    """A row for each, in slices. Sources that come or go meanwhile may be missed."""
    rows: list[Row] = []
    ends_at = time.perf_counter() + SLICE_SECONDS
    for each in tuple(sources):
        rows.append(row(each))
        if not len(rows) % _ROWS_BETWEEN_LOOKS and time.perf_counter() > ends_at:
            await asyncio.sleep(0)
            ends_at = time.perf_counter() + SLICE_SECONDS
    return rows


async def listed(request: Request, rows: list[Row], sorted_by: Sequence[str] = ("name",)) -> Answer:
    """The rows as the request's parameters ask for them; 400 if these are wrong."""
    query = request.query
    wanted = query.get("sort")
    keys = [wanted] if wanted else list(sorted_by)
    # By what RabbitMQ sorts by without being asked: a stable sort keeps that among equals.
    rows.sort(key=lambda row: tuple(_order(_at(row, key)) for key in sorted_by))
    if wanted:
        rows.sort(key=lambda row: tuple(_order(_at(row, key)) for key in keys))
    if query.get("sort_reverse") == "true":
        rows.reverse()
    if "page" in query or "page_size" in query:
        return Answer(200, _page(request, rows))
    return Answer(200, await _encoded_slices([shown(request, row) for row in rows]))


def shown(request: Request, row: Row) -> Row:
    """The row with the columns that the request names; all of them if it names none."""
    columns = request.query.get("columns")
    if not columns:
        return row
    chosen: Row = {}
    for column in columns.split(","):
        _copy(row, column.split("."), chosen)
    return chosen


def _copy(row: Row, path: list[str], chosen: Row) -> None:
    name = path[0]
    if name not in row:
        return
    if len(path) == 1:
        chosen[name] = row[name]
    elif isinstance(row[name], dict):
        _copy(row[name], path[1:], chosen.setdefault(name, {}))


async def _encoded_slices(rows: list[Row]) -> bytes:
    pieces = []
    for at in range(0, len(rows), _ROWS_BETWEEN_LOOKS):
        piece = encoded(rows[at : at + _ROWS_BETWEEN_LOOKS])
        pieces.append(piece[1:-1])
        if len(rows) > _ROWS_BETWEEN_LOOKS:
            await asyncio.sleep(0)
    return b"[" + b",".join(pieces) + b"]"


def _at(row: Row, path: str) -> Any:
    value: Any = row
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _order(value: Any) -> tuple[int, Any]:
    """Values of all kinds have an order: numbers, then nothing, then texts, then the others."""
    if isinstance(value, (int, float)):
        return 0, value
    if value is None:
        return 1, 0
    return (2, value) if isinstance(value, str) else (3, str(value))


def _page(request: Request, rows: list[Row]) -> Row:
    query = request.query
    try:
        number = int(query.get("page", "1"))
        size = int(query["page_size"]) if query.get("page_size") else None
        found = _filtered(rows, query.get("name", ""), query.get("use_regex") == "true")
    except (ValueError, re2.error):
        raise bad_request("Pagination parameters are invalid") from None
    if number < 1 or (size is not None and not 1 <= size <= PAGE_SIZE_MAX):
        text = "undefined" if size is None else size
        reason = f"Invalid pagination parameters: page number {number}, page size {text}"
        raise ApiError(400, "invalid_pagination_parameters", reason)
    size = PAGE_SIZE if size is None else size
    count = max(1, -(-len(found) // size))
    if number > count:
        reason = f"Page out of range, page: {number} page size: {size}, len: {len(found)}"
        raise ApiError(400, "page_out_of_range", reason)
    items = [shown(request, row) for row in found[(number - 1) * size : number * size]]
    return {
        "filtered_count": len(found),
        "item_count": len(items),
        "items": items,
        "page": number,
        "page_count": count,
        "page_size": size,
        "total_count": len(rows),
    }


def _filtered(rows: list[Row], name: str, use_regex: bool) -> list[Row]:
    if not name:
        return rows
    if use_regex:
        options = re2.Options()
        options.log_errors = False
        pattern = re2.compile(name, options)
        return [row for row in rows if pattern.search(row["name"])]
    return [row for row in rows if name.lower() in row["name"].lower()]
