"""Every row of the table of codes and texts in SEMANTICS, and the test that holds it.

This file asks no broker: it sees to it that no row loses its test. For each test it names the exact
words, which must stand in that test's module. A test without words is of a row that has none.

One text cannot come up, here or in RabbitMQ: "larger than max size", of a message where no limit is
configured. The limit is then that of a body, above which it is a FRAME_ERROR. And RabbitMQ 4.3's
refusal of transient queues that are not exclusive is not ours: they are kept, as in 3.10.
"""

from __future__ import annotations

import pytest
from claims import claims_of

TEXTS: dict[str, dict[str, tuple[str, ...]]] = {
    "broker/test_ack_timeouts.py": {
        "a_delivery_that_is_not_acked_in_time_closes_its_channel_and_comes_back": (
            "PRECONDITION_FAILED - delivery acknowledgement on channel ",
            " timed out. Timeout value used: ",
            " ms. This timeout value can be configured, see consumers doc guide to learn more",
        ),
    },
    "broker/test_reply_codes_topology.py": {
        "an_exchange_that_is_not_there": ("NOT_FOUND - no exchange 'x' in vhost '/'",),
        "a_queue_that_is_not_there": ("NOT_FOUND - no queue 'q' in vhost '/'",),
        "no_queue_name_without_an_earlier_declare": ("NOT_FOUND - no previously declared queue",),
        "declaring_what_is_there_otherwise": (
            "PRECONDITION_FAILED - inequivalent arg '",
            "the value '10' of type 'signedint'",
        ),
        "deleting_if_unused_what_is_in_use": (
            "PRECONDITION_FAILED - queue 'q' in vhost '/' in use",
            "PRECONDITION_FAILED - exchange 'x' in vhost '/' in use",
        ),
        "deleting_if_empty_what_is_not_empty": (
            "PRECONDITION_FAILED - queue 'q' in vhost '/' not empty",
        ),
        "deleting_what_is_not_there_is_no_mistake": (),
        "the_exclusive_queue_of_another_connection": (
            "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'q' in vhost "
            "'/'. It could be originally declared on another connection or the exclusive "
            "property value does not match that of the original declaration.",
        ),
        "names_and_types_that_cannot_be_had": (
            "ACCESS_REFUSED - queue name 'amq.x' contains reserved prefix 'amq.*'",
            "ACCESS_REFUSED - exchange name 'amq.x' contains reserved prefix 'amq.*'",
            "ACCESS_REFUSED - operation not permitted on the default exchange",
            "ACCESS_REFUSED - deletion of system exchange 'amq.direct' in vhost '/' not allowed",
            "ACCESS_REFUSED - cannot publish to internal exchange 'x' in vhost '/'",
            "PRECONDITION_FAILED - unknown exchange type 'foo'",
        ),
    },
    "broker/test_reply_codes_arguments.py": {
        "an_argument_that_rabbitmq_refuses": (
            "PRECONDITION_FAILED - invalid arg",
            "{value_zero,0}",
            "{value_negative,-1}",
            "{value_too_large,315360000001}",
            "{unacceptable_type,signedint}",
            "{max_value_exceeded,256}",
            "invalid_overflow",
            "routing_key_but_no_dlx_defined",
            '"expected integer, got longstr"',
        ),
        "an_argument_of_another_type": ("of queue type rabbit_classic_queue",),
        "more_consumers_than_a_channel_may_have": (
            "NOT_ALLOWED - reached maximum (2) of consumers per channel",
        ),
        "a_message_that_is_too_large": (" is larger than configured max size 20",),
    },
    "broker/test_reply_codes_basic.py": {
        "a_delivery_tag_that_was_settled_before": ("PRECONDITION_FAILED - unknown delivery tag ",),
        "a_delivery_tag_that_was_never_issued": (),
        "a_delivery_tag_of_another_channel": (),
        "tag_0_with_multiple_never_fails": (),
        "an_exclusive_consumer_is_alone": (
            "ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use",
        ),
        "a_consumer_s_mistake_that_closes_the_connection": (
            "NOT_ALLOWED - attempt to reuse consumer tag 'c'",
            "NOT_IMPLEMENTED - prefetch_size!=0 (1)",
            "NOT_IMPLEMENTED - requeue=false",
        ),
        "an_expiration": (
            "no_integer",
            '{leftover_string,"x"}',
            "{value_negative,-1}",
        ),
        "a_user_id_of_another_user": (
            "PRECONDITION_FAILED - user_id property set to 'a' but authenticated user was 'guest'",
        ),
        "a_publish_that_closes_the_connection": (
            "FRAME_ERROR - content body size 536870913 exceeds maximum allowed size 536870912",
        ),
    },
    "broker/test_reply_codes_order.py": {
        "the_others_come_in_their_order": (
            "ACCESS_REFUSED - write access to exchange 'denied' in vhost '/' refused for user"
            " 'narrow'",
        ),
    },
    "broker/test_permissions.py": {
        "without_the_access_it_is_refused": ("amq.default",),
    },
    "broker/test_reply_codes_exchanges.py": {
        "an_x_match_that_is_none": (
            "PRECONDITION_FAILED - Invalid x-match field",
            "expected all, any, all-with-x, or any-with-x",
        ),
    },
    "broker/test_reply_codes_connection.py": {
        "confirms_in_tx_mode": (
            "PRECONDITION_FAILED - cannot switch from",
            " tx to confirm mode",
        ),
        "a_transaction_where_there_can_be_none": (
            " confirm to tx mode",
            "PRECONDITION_FAILED - channel is not transactional",
        ),
        "a_channel_s_mistake_that_closes_the_connection": (
            "NOT_IMPLEMENTED - active=false",
            "CHANNEL_ERROR - second 'channel.open' seen",
            "CHANNEL_ERROR - expected 'channel.open'",
        ),
        "more_channels_than_were_agreed_on": (
            "NOT_ALLOWED - number of channels opened (2) has reached the negotiated "
            "channel_max (2)",
        ),
        "a_frame_that_must_not_come_here": (
            "UNEXPECTED_FRAME - expected content header for class 60, got non content header "
            "frame instead",
            "UNEXPECTED_FRAME - expected method frame, got non method frame instead",
        ),
        "a_frame_larger_than_agreed_on_and_8_octets": (
            "FRAME_ERROR - type 3, all octets = <<>>: {frame_too_large,4097,4088}",
        ),
    },
    "broker/test_reply_codes_replies.py": {
        "a_mistake_in_asking_for_direct_replies": (
            "PRECONDITION_FAILED - fast reply consumer does not exist",
            "PRECONDITION_FAILED - reply consumer cannot acknowledge",
            "PRECONDITION_FAILED - reply consumer already set",
        ),
    },
    "broker/test_handshake.py": {
        "limits_outside_the_offer_are_refused": (
            "NOT_ALLOWED - negotiated {} = {} is higher than the maximum allowed value ({})",
            "0 (no limit)",
        ),
        "a_vhost_that_is_not_there_is_not_found": ("NOT_ALLOWED - vhost ",),
        "a_refused_login_is_told_to_a_client_that_announced_authentication_failure_close": (
            "ACCESS_REFUSED - Login was refused using authentication mechanism {}. For "
            "details see the broker logfile.",
        ),
        "a_refused_login_closes_the_socket_of_any_other_client_without_a_word_after_a_while": (),
        "an_unknown_mechanism_is_refused": (
            "COMMAND_INVALID - unknown authentication mechanism 'X'",
        ),
        "another_protocol_header_is_answered_with_the_right_one_and_a_close": (),
    },
    "broker/test_vhosts.py": {
        "a_vhost_is_opened_when_it_is_there_and_its_user_may": (
            "NOT_ALLOWED - vhost v not found",
            "NOT_ALLOWED - access to vhost 'v' refused for user 'guest'",
        ),
    },
    "broker/test_restart.py": {
        "clients_of_a_broker_that_stops_are_told_so": (
            "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'",
        ),
    },
    "broker/test_queues.py": {
        "declaring_again_says_how_many_are_ready_and_how_many_consume": (),
    },
    "broker/test_returns.py": {
        "return_before_confirm": ("NO_ROUTE",),
    },
}
ROWS = [(module, test, words) for module, tests in TEXTS.items() for test, words in tests.items()]


@pytest.mark.parametrize(("module", "test", "words"), ROWS, ids=[test for _, test, _ in ROWS])
def test_a_text_has_its_test_with_the_exact_words(
    module: str, test: str, words: tuple[str, ...]
) -> None:
    found = claims_of(module)
    assert f"test_{test}" in found.tests
    for text in words:
        assert any(text in string for string in found.strings), text
