"""Lists of rows, filtered, sorted and paged as RabbitMQ's API does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from functools import partial
from typing import Any, Final, TypeVar

import re2

from .pace import in_order
from .request import Answer, ApiError, Request, bad_request
from .snapshots import SNAPSHOT_ROWS_MIN, Body, LongList, Row, encoded_rows, rows_of

Source = TypeVar("Source")

# RabbitMQ's.
PAGE_SIZE: Final = 100
PAGE_SIZE_MAX: Final = 500


async def listed(request: Request, rows: list[Row], sorted_by: Sequence[str] = ("name",)) -> Answer:
    """The rows as the request's parameters ask for them; 400 if these are wrong.

    They are sorted by `sorted_by` where the request does not say how, as RabbitMQ does; if that is
    empty they have their order already.
    """
    query, pace = request.query, request.snapshots.pace
    for keys in (sorted_by, [query["sort"]] if query.get("sort") else ()):
        # A stable sort: equal ones stay in the order before.
        if keys:
            rows = await pace.carry_out(in_order(rows, partial(_place, keys)))
    if query.get("sort_reverse") == "true":
        rows = rows[::-1]
    if _is_paged(request):

        def found(is_wanted: Callable[[str], object]) -> Awaitable[list[Row]]:
            return pace.carry_out(_filtered(rows, _name_of_row, is_wanted))

        return await _page(request, rows, found, dict)
    if query.get("columns"):
        rows = await rows_of(pace, rows, lambda row: shown(request, row))
    return Answer(200, await encoded_rows(pace, rows))


async def listed_long(request: Request, wanted: LongList[Source]) -> Answer:
    """As `listed`, of a list that may be long: its rows are then up to a second old."""
    snapshots, query = request.snapshots, request.query
    sources = await snapshots.sources(wanted)
    if len(sources) < SNAPSHOT_ROWS_MIN:
        return await listed(request, await rows_of(snapshots.pace, sources, wanted.row), ())
    columns, column = query.get("columns", ""), query.get("sort", "")
    is_reverse = query.get("sort_reverse") == "true"
    if not (columns or column or is_reverse or _is_paged(request)):
        return Answer(200, await snapshots.body(wanted, sources))
    if column:
        sources = await _sorted_sources(request, wanted, sources, column)
    if is_reverse:
        sources = sources[::-1]
    if _is_paged(request):

        def filtered(is_wanted: Callable[[str], object]) -> Awaitable[list[Source]]:
            asked_by = column, is_reverse, query.get("name"), query.get("use_regex")
            return snapshots.kept(
                ("filtered", wanted.key, *asked_by),
                wanted.version,
                lambda: snapshots.pace.carry_out(_filtered(sources, wanted.name, is_wanted)),
            )

        return await _page(request, sources, filtered, wanted.row)

    async def chosen() -> Body:
        pace = snapshots.pace
        rows = await rows_of(pace, sources, lambda each: shown(request, wanted.row(each)))
        return await encoded_rows(pace, rows)

    key = "columns", wanted.key, columns, column, is_reverse
    return Answer(200, await snapshots.kept(key, wanted.version, chosen))


async def _sorted_sources(
    request: Request, wanted: LongList[Source], sources: list[Source], column: str
) -> list[Source]:
    snapshots = request.snapshots

    def place(source: Source) -> tuple[Any, ...]:
        return _place([column], wanted.row(source))

    return await snapshots.kept(
        ("sorted", wanted.key, column),
        wanted.version,
        lambda: snapshots.pace.carry_out(in_order(sources, place)),
    )


def _place(keys: Sequence[str], row: Row) -> tuple[Any, ...]:
    """Of a row among others: by the values of these columns."""
    return tuple(_order(_at(row, key)) for key in keys)


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


def _is_paged(request: Request) -> bool:
    return "page" in request.query or "page_size" in request.query


def _name_of_row(row: Row) -> str:
    name = row.get("name", "")
    return name if isinstance(name, str) else ""


async def _page(
    request: Request,
    sources: list[Source],
    filtered: Callable[[Callable[[str], object]], Awaitable[list[Source]]],
    row: Callable[[Source], Row],
) -> Answer:
    """A page of the sources, of those whose names are as the request has them."""
    query, pace = request.query, request.snapshots.pace
    try:
        number = int(query.get("page", "1"))
        size = int(query["page_size"]) if query.get("page_size") else None
        is_wanted = _filter(query.get("name", ""), query.get("use_regex") == "true")
    except (ValueError, re2.error):
        raise bad_request("Pagination parameters are invalid") from None
    if number < 1 or (size is not None and not 1 <= size <= PAGE_SIZE_MAX):
        text = "undefined" if size is None else size
        reason = f"Invalid pagination parameters: page number {number}, page size {text}"
        raise ApiError(400, "invalid_pagination_parameters", reason)
    found = sources
    if is_wanted is not None:
        found = await filtered(is_wanted)
    size = PAGE_SIZE if size is None else size
    count = max(1, -(-len(found) // size))
    if number > count:
        reason = f"Page out of range, page: {number} page size: {size}, len: {len(found)}"
        raise ApiError(400, "page_out_of_range", reason)
    on_page = found[(number - 1) * size : number * size]
    items = await rows_of(pace, on_page, lambda each: shown(request, row(each)))
    page = {
        "filtered_count": len(found),
        "item_count": len(items),
        "items": items,
        "page": number,
        "page_count": count,
        "page_size": size,
        "total_count": len(sources),
    }
    return Answer(200, page)


def _filter(name: str, use_regex: bool) -> Callable[[str], object] | None:
    """What says whether a name is asked for; None: all are."""
    if not name:
        return None
    if use_regex:
        options = re2.Options()
        options.log_errors = False
        search: Callable[[str], object] = re2.compile(name, options).search
        return search
    wanted = name.lower()
    return lambda each: wanted in each.lower()


def _filtered(
    sources: list[Source], name: Callable[[Source], str], is_wanted: Callable[[str], object]
) -> Generator[None, None, list[Source]]:
    found: list[Source] = []
    for each in sources:
        if is_wanted(name(each)):
            found.append(each)
        yield
    return found
