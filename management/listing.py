"""Lists of rows, filtered, sorted and paged as RabbitMQ's API does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from functools import partial
from typing import Final, TypeVar

import re2

from .pace import in_order
from .request import Answer, ApiError, Request, bad_request
from .rows import Row, chosen, place
from .snapshots import SNAPSHOT_ROWS_MIN, Sort, encoded_rows, rows_of
from .text import encoded
from .watching import LongList, Watched

Source = TypeVar("Source")
Item = TypeVar("Item")

# RabbitMQ's.
PAGE_SIZE: Final = 100
PAGE_SIZE_MAX: Final = 500
# Of a compiled pattern with its working memory: a thousand states or so.
PATTERN_BYTES_MAX: Final = 65_536


async def listed(request: Request, rows: list[Row], sorted_by: Sequence[str] = ("name",)) -> Answer:
    """The rows as the request's parameters ask for them; 400 if these are wrong.

    They are sorted by `sorted_by` where the request does not say how, as RabbitMQ does; if that is
    empty they have their order already.
    """
    query, pace = request.query, request.snapshots.pace
    for keys in (sorted_by, [query["sort"]] if query.get("sort") else ()):
        # A stable sort: equal ones stay in the order before.
        if keys:
            rows = await pace.carry_out(in_order(rows, partial(place, keys)))
    if query.get("sort_reverse") == "true":
        rows = rows[::-1]
    if _is_paged(request):

        def found(is_wanted: Callable[[str], object]) -> Awaitable[list[Row]]:
            return pace.carry_out(_filtered(rows, _name_of_row, is_wanted))

        async def items(on_page: Sequence[Row]) -> bytes:
            return encoded(await rows_of(pace, on_page, lambda row: shown(request, row)))

        return await _page(request, rows, found, items)
    if query.get("columns"):
        rows = await rows_of(pace, rows, lambda row: shown(request, row))
    return Answer(200, await encoded_rows(pace, rows))


async def listed_long(
    request: Request, wanted: LongList[Source], short_row: Callable[[Source], Row] | None = None
) -> Answer:
    """As `listed`, of a list that may be long: its rows are then up to a second old.

    `short_row` makes the rows of a short list, where they depend on the request.
    """
    snapshots, query = request.snapshots, request.query
    sources = await snapshots.sources(wanted)
    if len(sources) < SNAPSHOT_ROWS_MIN:
        return await listed(
            request, await rows_of(snapshots.pace, sources, short_row or wanted.row), ()
        )
    seen = await snapshots.seen(wanted, sources)
    sort = Sort(query.get("sort", ""), query.get("sort_reverse") == "true")
    columns = query.get("columns", "")
    if not _is_paged(request):
        return Answer(200, await snapshots.body(wanted, seen, sort, columns))
    order = await snapshots.order(wanted, seen, sort)

    def filtered(is_wanted: Callable[[str], object]) -> Awaitable[list[Watched[Source]]]:
        asked_by = sort, query.get("name"), query.get("use_regex")

        def name(row: Watched[Source]) -> str:
            return wanted.name(row.source)

        return snapshots.kept(
            ("filtered", wanted.key, *asked_by),
            order,
            lambda: snapshots.pace.carry_out(_filtered(order.rows, name, is_wanted)),
        )

    def items(rows: Sequence[Watched[Source]]) -> Awaitable[bytes]:
        return snapshots.page(wanted, seen, rows, columns)

    return await _page(request, order.rows, filtered, items)


def shown(request: Request, row: Row) -> Row:
    """The row with the columns that the request names; all of them if it names none."""
    return chosen(request.query.get("columns", ""), row)


def _is_paged(request: Request) -> bool:
    return "page" in request.query or "page_size" in request.query


def _name_of_row(row: Row) -> str:
    name = row.get("name", "")
    return name if isinstance(name, str) else ""


async def _page(
    request: Request,
    rows: Sequence[Item],
    filtered: Callable[[Callable[[str], object]], Awaitable[Sequence[Item]]],
    items: Callable[[Sequence[Item]], Awaitable[bytes]],
) -> Answer:
    """A page of the rows, of those whose names are as the request has them."""
    query = request.query
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
    found = rows
    if is_wanted is not None:
        found = await filtered(is_wanted)
    size = PAGE_SIZE if size is None else size
    count = max(1, -(-len(found) // size))
    if number > count:
        reason = f"Page out of range, page: {number} page size: {size}, len: {len(found)}"
        raise ApiError(400, "page_out_of_range", reason)
    on_page = found[(number - 1) * size : number * size]
    before = {"filtered_count": len(found), "item_count": len(on_page)}
    after = {
        "page": number,
        "page_count": count,
        "page_size": size,
        "total_count": len(rows),
    }
    parts = encoded(before)[:-1], b',"items":', await items(on_page), b",", encoded(after)[1:]
    return Answer(200, b"".join(parts))


def _filter(name: str, use_regex: bool) -> Callable[[str], object] | None:
    """What says whether a name is asked for; None: all are."""
    if not name:
        return None
    if use_regex:
        options = re2.Options()
        options.log_errors = False
        # One name is searched in one step, which others wait for: a pattern of thousands of states,
        # or of groups, would need milliseconds for each.
        options.never_capture = True
        options.max_mem = PATTERN_BYTES_MAX
        search: Callable[[str], object] = re2.compile(name, options).search
        return search
    wanted = name.lower()
    return lambda each: wanted in each.lower()


def _filtered(
    rows: Sequence[Item], name: Callable[[Item], str], is_wanted: Callable[[str], object]
) -> Generator[None, None, list[Item]]:
    found: list[Item] = []
    for each in rows:
        if is_wanted(name(each)):
            found.append(each)
        yield
    return found
