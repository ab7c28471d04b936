# SPDX-License-Identifier: Apache-2.0
"""Two lives of an engine of Mooncake's: mooncake_lives.py URL lives|ends, whether its second life can begin. The same file runs as
the owner (owner URL NAME BYTE) and as a reader (read URL NAME BYTE)."""
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

SIZE = 1 << 20


def open_engine(url, name):
    import numpy
    from mooncake.engine import TransferEngine

    engine = TransferEngine()
    if engine.initialize(name, url + "/metadata", "tcp", ""):
        sys.exit("initialize failed")
    memory = numpy.zeros(SIZE, numpy.uint8)
    if engine.register_memory(memory.ctypes.data, SIZE):
        sys.exit("register_memory failed")
    return engine, memory


def own(url, name, byte):
    engine, memory = open_engine(url, name)
    memory[:] = int(byte)
    print("at", memory.ctypes.data, engine.get_rpc_port(), flush=True)
    signal.pause()


def read(url, name, byte, at):
    engine, memory = open_engine(url, name + "-reader")
    if engine.transfer_sync_read(name, memory.ctypes.data, int(at), SIZE):
        sys.exit("the transfer failed")
    if not (memory == int(byte)).all():
        sys.exit("the bytes are wrong")


class Owner:
    def __init__(self, url, name, byte):
        self.process = subprocess.Popen([sys.executable, __file__, "owner", url, name, str(byte)], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        self.at = None
        for line in self.process.stdout:
            if line.startswith("at "):
                self.at = line.split()[1]
                return
        self.process.wait()

    def kill(self):
        self.process.kill()
        self.process.communicate()


def reads(url, name, byte, owner):
    command = [sys.executable, __file__, "read", url, name, str(byte), owner.at]
    return subprocess.run(command, capture_output=True, timeout=120).returncode == 0


def is_there(url, key):
    try:
        urllib.request.urlopen(f"{url}/metadata?key={key}", timeout=60).read()
        return True
    except urllib.error.HTTPError as e:
        if e.code == 404:
            return False
        raise


def two_lives(url, name):
    """Whether the second life begins. What a test of ours demands of both is checked here."""
    keys = [f"mooncake/{kind}/{name}" for kind in ("rpc_meta", "ram")]
    first = Owner(url, name, 7)
    if first.at is None or not reads(url, name, 7, first):
        sys.exit("no transfer with the first life")
    first.kill()
    end = time.monotonic() + 9
    while any(is_there(url, key) for key in keys) and time.monotonic() < end:
        time.sleep(0.1)
    print("the keys of the dead", "stay" if any(is_there(url, key) for key in keys) else "are gone", flush=True)
    second = Owner(url, name, 9)
    began = second.at is not None and reads(url, name, 9, second)
    second.kill()
    return began


def restarts_at_once(url, name):
    first = Owner(url, name, 3)
    if first.at is None:
        sys.exit("no first life")
    first.kill()
    second = Owner(url, name, 5)
    if second.at is None or not reads(url, name, 5, second):
        sys.exit("no transfer with a second life that begins at once")
    second.kill()


if sys.argv[1] == "owner":
    own(*sys.argv[2:])
elif sys.argv[1] == "read":
    read(*sys.argv[2:])
else:
    URL, EXPECTED = sys.argv[1:]
    found = "lives" if two_lives(URL, "127.0.0.1:17001") else "ends"
    print("after kill -9 the name", found, flush=True)
    if found != EXPECTED:
        sys.exit(f"expected that it {EXPECTED}")
    if EXPECTED == "lives":
        restarts_at_once(URL, "127.0.0.1:17002")
