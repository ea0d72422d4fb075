"""/stats for people: nsqd's text, to the column (printStats in nsqd/http.go)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from ..about import About

_MEMORY_NAME_COLUMNS: Final = 25


def stats_text(stats: Mapping[str, Any], about: About, now_seconds: float) -> str:
    """The same figures as the JSON's."""
    started = datetime.fromtimestamp(int(about.started_seconds), UTC).astimezone()
    lines = [
        f"nsqd v{stats['version']} (built w/leveret {about.version})",
        f"start_time {started.isoformat().replace('+00:00', 'Z')}",
        f"uptime {duration(max(now_seconds - about.started_seconds, 0), decimals=9)}",
        "",
        f"Health: {stats['health']}",
        "",
    ]
    memory = stats.get("memory")
    if memory is not None:
        lines.append("Memory:")
        lines += [f"   {name:<{_MEMORY_NAME_COLUMNS}}\t{memory[name]}" for name in memory]
        lines.append("")
    topics = stats["topics"] or []
    lines.append("Topics:" if topics else "Topics: None")
    for number, topic in enumerate(topics):
        if number:
            lines.append("")
        lines += _topic_lines(topic, now_seconds)
    producers = stats["producers"] or []
    lines += ["", "Producers:" if producers else "Producers: None"]
    lines += [f"   {_client(each, now_seconds)}" for each in producers]
    return "\n".join(lines) + "\n"


def _topic_lines(topic: Mapping[str, Any], now_seconds: float) -> list[str]:
    mark = "*P " if topic["paused"] else "   "
    lines = [
        f"{mark}[{topic['topic_name']:<15}] depth: {topic['depth']:<5} "
        f"be-depth: {topic['backend_depth']:<5} msgs: {topic['message_count']:<8} e2e%: "
    ]
    for channel in topic["channels"]:
        mark = "   *P " if channel["paused"] else "      "
        lines.append(
            f"{mark}[{channel['channel_name']:<25}] depth: {channel['depth']:<5} "
            f"be-depth: {channel['backend_depth']:<5} inflt: {channel['in_flight_count']:<4} "
            f"def: {channel['deferred_count']:<4} re-q: {channel['requeue_count']:<5} "
            f"timeout: {channel['timeout_count']:<5} msgs: {channel['message_count']:<8} e2e%: "
        )
        lines += [f"        {_client(each, now_seconds)}" for each in channel["clients"] or []]
    return lines


def _client(client: Mapping[str, Any], now_seconds: float) -> str:
    port = client["remote_address"].rpartition(":")[2]
    who = f"{client['hostname']}:{port} {client['user_agent']}"
    connected = duration(max(int(now_seconds) - client["connect_ts"], 0))
    published = client.get("pub_counts")
    if published:
        total = sum(each["count"] for each in published)
        topics = ",".join(f"{each['topic']}={each['count']}" for each in published)
        text = f"msgs: {total:<8} topics: {topics}"
    else:
        text = (
            f"state: {client['state']} inflt: {client['in_flight_count']:<4} "
            f"rdy: {client['ready_count']:<4} fin: {client['finish_count']:<8} "
            f"re-q: {client['requeue_count']:<8} msgs: {client['message_count']:<8}"
        )
    return f"[{client['version']} {who:<21}] {text} connected: {connected}"


def duration(seconds: float, decimals: int = 0) -> str:
    """As Go prints a duration of a second and more: 1h2m3.5s."""
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    shown = f"{rest:.{decimals}f}"
    if decimals:
        shown = shown.rstrip("0").rstrip(".")
    text = f"{shown}s"
    if minutes or hours:
        text = f"{minutes}m{text}"
    return f"{hours}h{text}" if hours else text
