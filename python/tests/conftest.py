# SPDX-License-Identifier: Apache-2.0
"""A pair of linked endpoints, and a real nanoctrl with a Redis of its own: SLIME_BIN names the folder of the programs."""

import os
import re
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import libslime
import pytest


@pytest.fixture(params=["shm", "tcp"])
def pair(request):
    """Two contexts with a link between them."""
    contexts = [libslime.Context(), libslime.Context()]
    ends = [c.endpoint(transports=[request.param]) for c in contexts]
    ops = [ends[i].connect(ends[1 - i].export()) for i in range(2)]
    for op in ops:
        op.wait(10)
    yield ends
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def nanoctrl():
    folder = os.environ.get("SLIME_BIN")
    if not folder:
        pytest.skip("SLIME_BIN does not name the folder of nanoctrl")
    with tempfile.TemporaryDirectory() as work:
        log = Path(work) / "out"
        # It dies with us, also when we are killed.
        command = ["setpriv", "--pdeathsig", "KILL", "--", f"{folder}/nanoctrl", "server", "--port", "0", "--runtime-dir", f"{work}/run", "--data-dir", f"{work}/data"]
        with log.open("w") as out:
            server = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
        try:
            deadline = time.monotonic() + 30
            while not (found := re.search(r"serves at (\S+)", log.read_text())):
                assert server.poll() is None and time.monotonic() < deadline, log.read_text()
                time.sleep(0.05)
            yield found[1]
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(20)


@pytest.fixture
def interrupted():
    """Runs a function that waits, with a Ctrl-C 0.1 s later: how long after that it ended."""

    def run(wait):
        began = []

        def interrupt():
            began.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

        timer = threading.Timer(0.1, interrupt)
        timer.start()
        try:
            with pytest.raises(KeyboardInterrupt):
                wait()
        finally:
            timer.cancel()
        return time.monotonic() - began[0]

    return run
