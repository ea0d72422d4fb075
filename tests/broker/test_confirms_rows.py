"""Every row of the confirm table in SEMANTICS, ours among them, and the test that holds it.

This file asks no broker: it sees to it that no row loses its test. Streams, which the table knows
and Leveret refuses, have the test of their refusal.
"""

from __future__ import annotations

import pytest
from claims import claims_of

ROWS: dict[str, dict[str, str]] = {
    "broker/test_returns.py": {
        "unroutable, not mandatory": (
            "an_unroutable_message_that_is_not_mandatory_is_acked_without_a_return"
        ),
        "unroutable, mandatory": "return_before_confirm",
        "confirm.select again": "confirm_select_again_changes_nothing",
        "numbers from 1 at confirm.select": (
            "numbers_start_at_1_at_confirm_select_whatever_was_published_before"
        ),
        "ours: ack of a return is single, behind it": (
            "every_return_of_a_read_has_its_own_ack_directly_behind_it"
        ),
        "ours: return_delivery_tag": (
            "a_client_that_announced_return_delivery_tag_gets_the_number_in_the_return"
        ),
    },
    "broker/test_confirms_of_what_is_gone.py": {
        "mandatory asks for a route, not for acceptance": (
            "a_mandatory_message_that_its_queue_rejects_is_nacked_and_not_returned"
        ),
        "mandatory after alternate exchanges": (
            "messages_that_an_alternate_exchange_routes_are_not_returned"
        ),
        "ours: a no-ack consumer took it": (
            "messages_delivered_without_acks_are_confirmed_after_their_sync"
        ),
        "a no-ack consumer took a transient one": (
            "a_transient_message_that_a_no_ack_consumer_took_waits_for_no_sync"
        ),
        "TTL 0 and no consumer": "a_message_that_expires_at_once_is_dropped_and_confirmed",
        "drop-head before the write": (
            "a_message_dropped_from_the_head_before_its_sync_is_confirmed_after_it"
        ),
        "quorum queue": "a_quorum_queue_confirms_after_the_sync",
        "channel exception": "confirms_of_a_channel_that_made_a_mistake_are_never_sent",
        "connection loss": "publishes_of_a_lost_connection_are_kept",
    },
    "broker/test_confirms.py": {
        "transient message": (
            "transient_messages_of_a_read_are_confirmed_before_the_sync_persistent_ones_after"
        ),
        "queue that is not durable": (
            "a_persistent_message_for_a_transient_queue_waits_for_no_sync"
        ),
        "ours: durable exclusive queue": (
            "a_persistent_message_for_an_exclusive_durable_queue_waits_for_no_sync"
        ),
        "ours: persistent, durable classic queue": "fsync_before_confirm",
        "ours: delivered and acked before its sync": (
            "a_message_delivered_and_acked_before_its_sync_is_confirmed_after_it"
        ),
        "routed to several queues": (
            "a_message_for_three_queues_one_durable_is_confirmed_once_after_the_sync"
        ),
        "ours: queue deleted while it owes": (
            "a_queue_deleted_while_it_owes_nacks_each_message_and_acks_none"
        ),
        "purged while it owes": "a_purge_acks_what_it_drops_after_the_sync",
        "channel closed by the client": "confirms_of_a_channel_that_is_closed_are_never_sent",
        "publishes on a closing channel": "publishes_sent_behind_a_channel_close_are_dropped",
        "cut-off rule": "multiple_only_below_the_smallest_unconfirmed",
    },
    "broker/test_length_limits.py": {
        "reject-publish": "with_reject_publish_what_is_too_much_is_nacked",
        "reject-publish-dlx": "what_is_too_much_goes_to_the_dead_letter_exchange",
        "in the other queue": "a_rejected_message_may_be_in_the_other_queues",
    },
    "actors/test_queue_failures.py": {
        "queue crash": "a_queue_that_dies_nacks_each_message_it_owes_and_acks_none",
        "ours: the queue vanished between routing and enqueuing": (
            "a_publish_to_a_dead_queue_is_nacked_and_not_returned"
        ),
    },
    "broker/test_restart.py": {
        "queue stops with the broker": (
            "appends_that_wait_for_the_disk_at_a_stop_are_written_before_the_broker_ends"
        ),
    },
    "broker/test_deleting.py": {
        "ours: deleted meanwhile": "publishes_during_the_commit_of_a_delete_are_nacked",
    },
    "broker/test_reply_codes_arguments.py": {
        "stream": "what_rabbitmq_knows_and_is_not_built_yet",
    },
    "broker/test_transactions.py": {
        "tx: publishes held": "publishes_are_held_until_the_commit",
        "tx: every confirm, then commit-ok": (
            "commit_ok_comes_behind_the_sync_of_all_that_is_persistent"
        ),
        "tx: returns at commit": (
            "returns_go_out_at_the_commit_before_its_answer_and_without_acks"
        ),
        "tx: 406 partial tx completion": (
            "a_queue_that_refuses_a_part_makes_the_commit_fail_after_the_rest"
        ),
    },
    "core/test_coalescing.py": {
        "never both ack and nack": "every_number_is_answered_once_and_rightly_in_any_order",
    },
}
CLAIMS = [(said, module, test) for module, rows in ROWS.items() for said, test in rows.items()]


@pytest.mark.parametrize(("said", "module", "test"), CLAIMS, ids=[said for said, *_ in CLAIMS])
def test_a_row_of_the_confirm_table_has_its_test(said: str, module: str, test: str) -> None:
    assert f"test_{test}" in claims_of(module).tests, said
