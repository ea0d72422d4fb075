"""Pykka's private names: there, and what they were, in each Pykka that pyproject.toml allows."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import tomllib
from pathlib import Path

import pykka
import pytest
from leveret.actors.runtime import pykka_inside
from pykka.messages import _ActorStop

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
# `.ci/tools pykka` installs it.
OLDEST = ROOT / "build" / "oldest-pykka"


def test_pykka_still_leaves_inbox_future_and_start_to_new_actor_types() -> None:
    # private: Pykka's own abstract methods, which have no public form.
    hooks = {"_create_actor_inbox", "_create_future", "_start_actor_loop"}
    assert hooks <= set(pykka.Actor.__abstractmethods__)


def test_pykka_sends_what_the_actors_loops_know() -> None:
    """An inbox gets envelopes with `message` and `reply_to`; a stop is a message of its own."""

    class Idle(pykka_inside.UnlistedActor, inbox_type=list):
        def begin(self) -> None:
            """Handle nothing."""

    actor = Idle()
    put: list[pykka_inside.Envelope[object]] = []
    # private: the claim is about what Pykka puts into an inbox.
    actor.actor_ref.actor_inbox = type("Inbox", (), {"put": staticmethod(put.append)})()
    actor.actor_ref.tell("told")
    asked = actor.actor_ref.ask("asked", block=False)
    stopped = actor.actor_ref.stop(block=False)
    told, question, stop = put
    assert [type(each) for each in put] == [pykka_inside.Envelope] * 3
    assert (told.message, told.reply_to) == ("told", None)
    assert (question.message, question.reply_to) == ("asked", asked)
    assert type(stop.message) is pykka_inside.ActorStop is _ActorStop
    for each in put:
        pykka_inside.refuse(each)
    with pytest.raises(pykka.ActorDeadError):
        asked.get(timeout=0)
    assert stopped.get(timeout=0) is True


def test_a_stopped_actor_keeps_what_pykka_reads_of_it() -> None:
    class Idle(pykka.ThreadingActor):
        pass

    actor = Idle()
    assert set(vars(actor)) == pykka_inside.PYKKA_ATTRIBUTES
    assert isinstance(actor.actor_stopped, threading.Event)


@pytest.mark.skipif(not OLDEST.is_dir(), reason="not installed: .ci/tools pykka")
def test_the_actor_types_run_on_the_oldest_pykka_allowed() -> None:
    environment = dict(os.environ, PYTHONPATH=str(OLDEST))
    say = "import importlib.metadata as m, pykka; print(m.version('pykka'), pykka.__file__)"
    found = subprocess.run(
        [sys.executable, "-c", say], env=environment, capture_output=True, text=True, check=True
    )
    version, file = found.stdout.split()
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert f"pykka>={version.removesuffix('.0')},<5" in dependencies
    assert Path(file).is_relative_to(OLDEST)
    files = ["test_pykka_inside.py", "test_runtime.py", "test_journal_actor.py"]
    options = ["-q", "-p", "no:cacheprovider", "-k", "not oldest"]
    command = [sys.executable, "-m", "pytest", *options, *files]
    ran = subprocess.run(command, cwd=HERE, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
