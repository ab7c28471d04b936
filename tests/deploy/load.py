#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A client of several replicas of nanoctrl, until SIGTERM: load.py URL...

It writes a topology again and again, each time through the next replica, and reads it through another one. A replica that
does not answer, or says 503, is left for the next one. An acknowledged write that is not there afterwards ends the load
with 1. At the end it prints how many writes were acknowledged, and the longest time without one.
"""
import json
import signal
import sys
import time
import urllib.error
import urllib.request

LIMIT_S = 20  # without an acknowledged write
BEHIND_S = 2  # while Redis moves, a replica of nanoctrl may still read from the old one, which follows the new one

urls = sys.argv[1:]
turn = 0
ends = False


def ask(method, path, body=None):
    """The status and the answer of the first replica that has one."""
    global turn
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        url = urls[turn % len(urls)]
        turn += 1
        request = urllib.request.Request(url + path, method=method, data=body and json.dumps(body).encode(),
                                         headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code != 503:
                return error.code, json.load(error)
        except OSError:
            pass
        time.sleep(0.01)
    sys.exit(f"{method} {path}: no replica answered for {LIMIT_S} s")


def stop(*_):
    global ends
    ends = True


def main():
    signal.signal(signal.SIGTERM, stop)
    revision = ask("GET", "/v1/topologies")[1]["revision"]
    n, longest, last = 0, 0, time.monotonic()
    while not ends:
        n += 1
        wanted = {"version": 1, "name": "load", "links": [{"pairs": [["load-a", f"load-{n}"]]}]}
        status, answer = ask("PUT", f"/v1/topologies/load?revision={revision}&prune=1", wanted)
        if status not in (200, 409):
            sys.exit(f"write {n}: {status} {answer}")
        # After 409 the first try of this write had an unknown outcome: it has to be there, too.
        end = time.monotonic() + BEHIND_S
        while (read := ask("GET", "/v1/topologies/load")[1]).get("topology", {}).get("topology", {}).get("links") != wanted["links"]:
            if time.monotonic() > end:
                sys.exit(f"write {n} was answered with {status} {answer} and is lost: {read}")
            time.sleep(0.01)
        revision = read["revision"]
        longest, last = max(longest, time.monotonic() - last), time.monotonic()
    print(f"{n} writes, and at most {longest:.1f} s without one")


main()
