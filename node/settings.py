"""The settings as keyword arguments, for type checkers: `Broker(prot=5672)` is an error to them.

The names are those of `Configuration`, which checks the values (a test keeps the two alike).
node/leveret.toml says what each setting does.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict


class Settings(TypedDict, total=False):
    """Some of the settings, each by its name."""

    host: str
    port: int
    data_dir: Path | str
    http_listener: str
    http_host: str
    http_port: int
    http_body_bytes_max: int
    http_get_bytes_max: int
    definitions_file: str
    definitions_bytes_max: int
    http_request_timeout_ms: int
    http_connections_max: int
    http_loopback_connections_kept: int
    http_health_without_password: str
    statistics_interval_ms: int
    statistics_samples_max: int
    statistics_bytes_max: int
    list_age_ms: int
    lists_kept_max: int
    lists_bytes_max: int
    prometheus_without_password: str
    prometheus_per_object: str
    prometheus_listener: str
    prometheus_host: str
    prometheus_port: int
    control_connections_max: int
    control_idle_timeout_ms: int
    tls_port: int
    tls_certificate: str
    tls_key: str
    tls_ca_certificates: str
    tls_verify_client: str
    tls_login_name: str
    tls_version_min: str
    tls_handshakes_max: int
    nsq_port: int
    nsq_host: str
    nsq_vhost: str
    nsq_user: str
    nsq_body_bytes_max: int
    nsq_ready_count_max: int
    nsq_message_timeout_ms: int
    nsq_message_timeout_ms_max: int
    nsq_requeue_delay_ms_max: int
    nsq_heartbeat_ms: int
    nsq_heartbeat_ms_max: int
    nsq_deflate_level_max: int
    nsq_broadcast_address: str
    nsq_http_port: int
    nsq_http_host: str
    nsq_http_connections_max: int
    log_level: str
    log_format: str
    server_product: str
    server_version: str
    node_name: str
    frame_max_bytes: int
    channel_max: int
    heartbeat_seconds: int
    handshake_timeout_ms: int
    silent_close_delay_ms: int
    close_timeout_ms: int
    drain_timeout_ms: int
    stop_timeout_ms: int
    stop_clients_timeout_ms: int
    connections_max: int
    sockets_above_connections_max: int
    draining_sockets_max: int
    unopened_connections_max: int
    consumers_per_channel_max: int
    message_size_max_bytes: int
    topic_costly_words_max: int
    routing_round_ms_max: int
    read_round_bytes_max: int
    file_descriptors_min: int
    file_descriptors_kept: int
    unfinished_publishes_bytes_max: int
    publish_window_bytes_max: int
    node_publish_window_bytes_max: int
    delivery_window_bytes_max: int
    node_delivery_window_bytes_max: int
    write_buffer_bytes_max: int
    sweep_interval_bytes: int
    transaction_bytes_max: int
    timed_out_ranges_max: int
    touched_timeout_ms_max: int
    reply_window_bytes_max: int
    memory_budget_bytes: int
    memory_alarm_bytes: int
    memory_headroom_bytes: int
    read_ahead_bytes_max: int
    spill_segment_bytes_max: int
    routes_kept_bytes_max: int
    shared_runs_bytes_max: int
    dedup_window_max: int
    dedup_identities_max: int
    stranded_letters_max: int
    stranded_letters_bytes_max: int
    firehose_backlog_bytes_max: int
    segment_bytes_max: int
    compaction_live_percent_max: int
    compaction_segment_bytes_min: int
    maintenance_bytes_per_second_max: int
    maintenance_busy_percent_max: int
    journal_verification: str
    disk_free_bytes_min: int
    disk_check_interval_ms: int
    disk_reserve_bytes: int
    trace_one_of: int
    trace_queues: list[str] | tuple[str, ...]
    trace_buffer_bytes_max: int
    trace_failures_per_second_max: int
    trace_slow_ms: int
    trace_file_bytes_max: int
    trace_file_age_seconds_max: int
    trace_files_max: int
    default_user: str
    default_password: str
    loopback_users: list[str] | tuple[str, ...]
    password_hash_cost: int
    password_rehash: str
    password_checks_max: int
    password_checks_waiting_max: int
