"""Lists of rows, filtered, sorted and paged as RabbitMQ's API does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Final

import re2

from .request import Answer, ApiError, Request, bad_request
from .snapshots import (
    ROWS_BETWEEN_LOOKS,
    SLICE_SECONDS,
    Row,
    encoded_slices,
    rows_of,
)

# RabbitMQ's.
PAGE_SIZE: Final = 100
PAGE_SIZE_MAX: Final = 500


async def listed(request: Request, rows: list[Row], sorted_by: Sequence[str] = ("name",)) -> Answer:
    """The rows as the request's parameters ask for them; 400 if these are wrong.

    They are sorted by `sorted_by` where the request does not say how, as RabbitMQ does; if that is
    empty they have their order already.
    """
    query = request.query
    for keys in (sorted_by, [query["sort"]] if query.get("sort") else ()):
        # A stable sort: equal ones stay in the order before.
        if keys:
            rows = await _sorted(rows, keys)
    if query.get("sort_reverse") == "true":
        rows = rows[::-1]
    if "page" in query or "page_size" in query:
        return Answer(200, _page(request, rows))
    if query.get("columns"):
        rows = await rows_of(rows, lambda row: shown(request, row))
    return Answer(200, await encoded_slices(rows))


async def _sorted(rows: list[Row], keys: Sequence[str]) -> list[Row]:
    """The rows by these columns; the keys are made in slices, and the sort itself is fast."""
    ends_at = time.perf_counter() + SLICE_SECONDS
    order: list[tuple[Any, int]] = []
    for number, row in enumerate(rows):
        order.append((tuple(_order(_at(row, key)) for key in keys), number))
        if not number % ROWS_BETWEEN_LOOKS and time.perf_counter() > ends_at:
            await asyncio.sleep(0)
            ends_at = time.perf_counter() + SLICE_SECONDS
    order.sort()
    return [rows[number] for _, number in order]


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
