"""Clients that others wrote, in other languages: each against one live broker, then together."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pika
from served import Served
from timeouts import TIMEOUT_SECONDS

Start = Callable[[int], "subprocess.Popen[str]"]
MESSAGES = 2_000


def output_of(process: subprocess.Popen[str]) -> str:
    output, errors = process.communicate(timeout=TIMEOUT_SECONDS)
    assert process.returncode == 0, errors
    return output


def assert_all_went_well_in_node(output: str, count: int) -> None:
    assert json.loads(output) == {
        "confirmed": count,
        "consumed": count,
        "inOrder": True,
        "returned": ["NO_ROUTE"],
        "mistake": 404,
        "left": 0,
    }


def test_a_node_client_publishes_with_confirms_and_consumes(node: Start) -> None:
    assert_all_went_well_in_node(output_of(node(MESSAGES)), MESSAGES)


def test_a_c_client_publishes_with_confirms_and_consumes(c_program: Start) -> None:
    expected = f"confirmed {MESSAGES} consumed {MESSAGES} in order\n"
    assert output_of(c_program(MESSAGES)) == expected


def test_a_celery_task_returns_its_result_by_rpc(workers: Path) -> None:
    from celery_application import add

    assert add.delay(20, 22).get(timeout=TIMEOUT_SECONDS) == 42


def test_a_celery_task_that_fails_is_tried_again(workers: Path) -> None:
    from celery_application import fails_twice

    assert fails_twice.delay().get(timeout=TIMEOUT_SECONDS) == 2


def test_a_celery_task_with_an_eta_waits_for_it(workers: Path) -> None:
    from celery_application import started_at

    not_before = time.time() + 1
    result = started_at.apply_async(countdown=1)
    assert result.get(timeout=TIMEOUT_SECONDS) >= not_before - 0.01


def test_a_celery_task_is_not_held_up_by_delayed_ones_before_it(workers: Path) -> None:
    """More of them than the worker prefetches: it asks for more by basic.qos global."""
    from celery_application import add, started_at

    for _ in range(6):
        # None of them is due before the test has failed.
        started_at.apply_async(countdown=10 * TIMEOUT_SECONDS)
    assert add.delay(1, 2).get(timeout=TIMEOUT_SECONDS) == 3


def test_a_celery_task_acked_late_comes_back_when_its_process_dies(workers: Path) -> None:
    from celery_application import dies_at_first

    assert dies_at_first.delay().get(timeout=TIMEOUT_SECONDS) is True


def test_a_celery_task_that_gives_its_message_back_is_tried_again_after_the_delay(
    workers: Path,
) -> None:
    from celery_application import REQUEUE_DELAY_SECONDS, rejects_at_first

    began = time.time()
    done_at = rejects_at_first.delay().get(timeout=TIMEOUT_SECONDS)
    # A millisecond for the rounding of clocks.
    assert done_at - began >= REQUEUE_DELAY_SECONDS - 0.001


def test_a_celery_task_that_always_gives_its_message_back_leaves_over_the_limit(
    workers: Path, served: Served
) -> None:
    from celery_application import always_rejects

    parameters = pika.ConnectionParameters(served.host, served.port)
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.queue_declare("given up")
        task_id = always_rejects.delay().id
        letters = channel.consume("given up", auto_ack=True, inactivity_timeout=TIMEOUT_SECONDS)
        method, properties, _ = next(letters)
        assert method is not None, "no dead letter came"
        assert properties.headers["id"] == task_id
        [death] = properties.headers["x-death"]
        assert (death["reason"], death["queue"]) == ("delivery_limit", "rpc.deferred")


def test_a_celery_task_that_hangs_is_run_again_by_another_process(
    workers: Path, tmp_path: Path
) -> None:
    """The first run waits for the second, which begins when the first is out of time."""
    from celery_application import hangs_at_first

    assert hangs_at_first.delay(str(tmp_path / "begun")).get(timeout=TIMEOUT_SECONDS) == "again"


def test_a_celery_chord_gathers_results_from_queues(workers: Path) -> None:
    from celery import chord
    from celery_application import square, total

    result = chord([square.s(number) for number in range(10)])(total.s())
    assert result.get(timeout=TIMEOUT_SECONDS) == sum(number**2 for number in range(10))


def test_all_of_them_at_once(node: Start, c_program: Start, workers: Path) -> None:
    from celery import chord
    from celery_application import add, square, total

    running_node, running_c = node(5 * MESSAGES), c_program(5 * MESSAGES)
    chords = [chord([square.s(number), square.s(2)])(total.s()) for number in range(3)]
    sums = [add.delay(number, number) for number in range(50)]
    assert [each.get(timeout=TIMEOUT_SECONDS) for each in sums] == list(range(0, 100, 2))
    assert [each.get(timeout=TIMEOUT_SECONDS) for each in chords] == [4, 5, 8]
    assert_all_went_well_in_node(output_of(running_node), 5 * MESSAGES)
    assert output_of(running_c).startswith(f"confirmed {5 * MESSAGES} consumed {5 * MESSAGES} ")
