from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'leveret[spark]'")

# Spark forks its workers after the import: a thread or a socket made by it would be shared.
CHECK = """
import os, socket, threading
made = []
socket.socket.__init__ = lambda *_a, **_k: made.append("socket")
import leveret.spark.data_source, leveret.spark.source, leveret.spark.stream_source
import leveret.spark.batch_source, leveret.spark.fetch, leveret.spark.consumer_thread
import leveret.spark.spooled_source
import pyspark_leveret
print(made, threading.active_count(), "leveret.actors" in __import__("sys").modules)
"""


def test_importing_the_source_makes_no_thread_and_no_socket_and_loads_no_broker() -> None:
    done = subprocess.run([sys.executable, "-c", CHECK], capture_output=True, text=True, check=True)
    assert done.stdout == "[] 1 False\n"
