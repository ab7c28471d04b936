# SPDX-License-Identifier: Apache-2.0
"""What a side starts for itself: a Redis, and a control plane on it. They die with whoever started them."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from ctypes import CDLL

from sweep import PLACE, absent

PR_SET_PDEATHSIG = 1
START_S = 60
FILL = """for i = tonumber(ARGV[1]), tonumber(ARGV[2]) do redis.call('SET', 'foreign:' .. i, i) end"""


def die_with_us():
    CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def spawn(*command, **options):
    none = subprocess.DEVNULL
    return subprocess.Popen(command, stdin=none, stdout=none, preexec_fn=die_with_us, **options)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_until(ready, process, what):
    until = time.monotonic() + START_S
    while not ready():
        if process.poll() is not None or time.monotonic() > until:
            sys.exit(f"{what} does not start")
        time.sleep(0.05)


def redis_command(port, *words):
    return subprocess.run(
        ["redis-cli", "-p", str(port), *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False
    ).stdout.decode()


def start_redis(folder, foreign=0):
    port = free_port()
    # As Redis comes, but for its files.
    process = spawn("redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder)
    wait_until(lambda: redis_command(port, "ping").strip() == "PONG", process, "redis-server")
    for first in range(0, foreign, 100000):
        redis_command(port, "eval", FILL, "0", str(first), str(min(first + 99999, foreign - 1)))
    if int(redis_command(port, "dbsize") or -1) != foreign:
        sys.exit("the keys of others are not in Redis")
    return process, port


def answers(url):
    try:
        with urllib.request.urlopen(url, timeout=1) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


def metric(url, name):
    """What our server says of a counter without labels."""
    with urllib.request.urlopen(url + "/metrics", timeout=10) as answer:
        for line in answer.read().decode().splitlines():
            if line.startswith(name + " "):
                return float(line.split()[1])
    return None


def has_looked(url):
    """Whether our server is through with its look at all keys, which follows each start."""
    return metric(url, "nanoctrl_store_looking") == 0


def cpu_s(pid):
    """Seconds of CPU time that a process has taken."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_kib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))


def start_server(whose, folder, redis, options=(), **environment):
    """A control plane, "ours" or the original, at its default log level; what it says goes nowhere."""
    port = free_port()
    options = ["server", "--host", "127.0.0.1", "--port", str(port), "--redis-url", f"redis://127.0.0.1:{redis}", *options]
    if whose == "ours":
        program = os.path.join(os.environ["SLIME_BIN"], "nanoctrl")
        options += ["--runtime-dir", folder]
    else:
        program = os.path.join(PLACE, "bin", "nanoctrl")
        if not os.access(program, os.X_OK):
            absent(f"there is no {program}: bench/baselines/setup.sh")
    environment = {**os.environ, "NANOCTRL_RUNTIME_DIR": folder, **environment}
    process = spawn(program, *options, stderr=subprocess.DEVNULL, env=environment)
    url = f"http://127.0.0.1:{port}"
    wait_until(lambda: answers(url + ("/readyz" if whose == "ours" else "/")), process, program)
    if whose == "ours":
        wait_until(lambda: has_looked(url), process, "a round without a look at all keys")
    return process, url
