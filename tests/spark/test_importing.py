from __future__ import annotations

import subprocess
import sys

import pytest

# Spark forks its workers after the import: a thread or a socket made by it would be shared.
CHECK = """
import importlib, os, pkgutil, socket, sys, threading
made = []
socket.socket.__init__ = lambda *_a, **_k: made.append("socket")
import leveret.spark.data_source, leveret.spark.source, leveret.spark.spool, pyspark_leveret
for package in leveret.spark.source, leveret.spark.spool:
    for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)
loaded = [name for name in ("actors", "node", "broker") if f"leveret.{name}" in sys.modules]
print(made, threading.active_count(), loaded)
"""
# The parts of `leveret.spark` that the command and the drivers' programs import before they know
# whether there is a Spark; None in sys.modules is what `import` finds where there is no PySpark.
WITHOUT_PYSPARK = """
import sys
sys.modules["pyspark"] = None
import leveret.spark, leveret.spark.session, leveret.spark.trace_report
from leveret.commands.command_line import main
sys.exit(main(["spark", "trace-report", "somewhere"]))
"""


def test_importing_the_source_makes_no_thread_and_no_socket_and_loads_no_broker() -> None:
    pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'leveret[spark]'")
    done = subprocess.run([sys.executable, "-c", CHECK], capture_output=True, text=True, check=True)
    assert done.stdout == "[] 1 []\n"


def test_where_pyspark_cannot_be_imported_the_command_says_so_in_one_line() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PYSPARK], capture_output=True, text=True, check=False
    )
    said = "leveret: Spark is not installed: pip install 'leveret[spark]'\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", said)
