"""For the tests in Python: where they find what they share, and servers. ctest runs them in tests/run; one alone:
/usr/bin/python3 -m pytest tests/integration/backup. The program is RUNG_PROGRAM, $RUNG_TEST_BUILD/rung, or build/dev/rung."""
import os
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "support"), str(HERE / "bench")]
import starting  # noqa: E402


@pytest.fixture(scope="session")
def servers(tmp_path_factory):
    """A RabbitMQ and a database at RUNG_TEST_*: those of tests/run, or else private ones."""
    if "RUNG_TEST_AMQP" in os.environ:
        yield
        return
    own = starting.Servers(tmp_path_factory.mktemp("servers"), "--management")
    os.environ.update(own.env)
    yield
    own.stop()
