"""One broker for all these clients, as its users start it, and the programs that talk to it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from served import Served
from timeouts import TIMEOUT_SECONDS

HERE = Path(__file__).parent
sys.path.append(str(HERE))
pytest.register_assert_rewrite("driven_consumers")

NODE_MODULES = HERE.parents[1] / "build" / "node" / "node_modules"

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("clients")) as running:
        yield running


@pytest.fixture(scope="module")
def node(served: Served) -> Start:
    """Starts many.js with a number of messages."""
    if shutil.which("node") is None:
        pytest.skip("node not found: install nodejs and npm to run this")
    if not (NODE_MODULES / "amqplib").is_dir():
        pytest.skip("amqplib is not installed: .ci/tools node (npm, and a way to its registry)")

    def start(count: int) -> subprocess.Popen[str]:
        url = f"amqp://guest:guest@{served.host}:{served.port}/%2f"
        environment = os.environ | {"NODE_PATH": str(NODE_MODULES)}
        return started(["node", str(HERE / "many.js"), url, str(count)], environment)

    return start


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Compiles the C source of this name; gives the program."""

    def compile_c(name: str) -> Path:
        if shutil.which("gcc") is None:
            pytest.skip("gcc not found: install gcc and librabbitmq-dev to run this")
        program = tmp_path_factory.mktemp("c") / name
        source = str(HERE / f"{name}.c")
        done = subprocess.run(
            ["gcc", "-Wall", "-Wextra", "-Werror", "-o", str(program), source, "-lrabbitmq"],
            capture_output=True,
            text=True,
            check=False,
        )
        if "amqp.h: No such file" in done.stderr:
            pytest.skip("amqp.h not found: install librabbitmq-dev to run this")
        assert done.returncode == 0, done.stderr
        return program

    return compile_c


@pytest.fixture(scope="module")
def c_program(served: Served, compiled: Callable[[str], Path]) -> Start:
    """Compiles many.c, and starts it with a number of messages."""
    program = compiled("many")

    def start(count: int) -> subprocess.Popen[str]:
        return started([str(program), str(served.port), str(count)])

    return start


@pytest.fixture(scope="module")
def celery(served: Served) -> Iterator[None]:
    """Makes celery_application importable, for the broker that runs."""
    if importlib.util.find_spec("celery") is None:
        pytest.skip("celery is not installed: pip install 'celery>=5.3' to run this")
    url = f"amqp://guest:guest@{served.host}:{served.port}//"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEVERET_TEST_URL", url)
        patch.syspath_prepend(str(HERE))
        yield


@contextmanager
def celery_worker(name: str, directory: Path) -> Iterator[None]:
    """A worker with two processes for the application of this name, with its output in a file."""
    command = [sys.executable, "-m", "celery", "-A", f"celery_application:{name}", "worker"]
    options = ["--concurrency=2", "--pool=prefork", "--loglevel=info", f"--hostname={name}@%h"]
    with (directory / f"{name}.log").open("w") as log:
        worker = subprocess.Popen(
            [*command, *options],
            cwd=HERE,
            env=os.environ | {"C_FORCE_ROOT": "1", "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            yield
        finally:
            worker.terminate()
            try:
                worker.wait(TIMEOUT_SECONDS)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()


@pytest.fixture(scope="module")
def workers(celery: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One Celery worker for each of the two applications; gives the place of their output."""
    directory = tmp_path_factory.mktemp("celery")
    with celery_worker("rpc", directory), celery_worker("queues", directory):
        yield directory


def started(command: list[str], environment: dict[str, str] | None = None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
