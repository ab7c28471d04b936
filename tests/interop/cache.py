# SPDX-License-Identifier: Apache-2.0
"""DLSlimeCache's unmodified client with its own directory and with ours: cache.py THEIRS OURS CTRL. The same requests go
to both, and have the same answers; ours is found through the control plane."""
import http.client
import json
import sys
import urllib.parse

from dlslime._slime_c import Assignment
from dlslime.cache import CacheClient
from dlslime.cache.client import post_json
from dlslime.cache.types import manifest_to_json

SLAB = 128 * 1024

# Path, body. Those of them that have an answer have the same one.
CASES = [
    ("/store", '{"peer_agent_id":"a","assignments":[]}'),
    ("/store", '{"peer_agent_id":"a","assignments":[{"mr_key":1,"remote_mr_key":2,"target_offset":3,"source_offset":4,'
               '"length":300000},{"mr_key":1,"remote_mr_key":2,"target_offset":5,"source_offset":6,"length":0}]}'),
    ("/store", '{"peer_agent_id":"b \\u00e4\\"","assignments":[{"mr_key":18446744073709551615,"remote_mr_key":"7",'
               '"target_offset":"8","source_offset":0,"length":131072,"more":1}]}'),
    ("/store", '{"peer_agent_id":5,"assignments":[]}'),
    ("/store", '{"peer_agent_id":"","assignments":[]}'),
    ("/store", '{"peer_agent_id":"c","assignments":[{"mr_key":1,"remote_mr_key":2,"target_offset":3,"source_offset":4,'
               '"length":99999999}]}'),
    ("/store", '{"peer_agent_id":"c","assignments":[{"mr_key":1}]}'),
    ("/store", '{"assignments":[]}'),
    ("/store", '{"peer_agent_id":"c"}'),
    ("/store", ""),
    ("/store", "{"),
    ("/store", "[]"),
    ("/query", '{"peer_agent_id":"a","version":2}'),
    ("/query", '{"peer_agent_id":"a","version":"2"}'),
    ("/query", '{"peer_agent_id":"b","version":2}'),
    ("/query", '{"peer_agent_id":"5","version":4}'),
    ("/query", '{"peer_agent_id":"a"}'),
    ("/query", '{"peer_agent_id":"a","version":"x"}'),
    ("/stats", None),
    ("/delete", '{"peer_agent_id":"a","version":2}'),
    ("/delete", '{"peer_agent_id":"a","version":2}'),
    ("/delete", '{"peer_agent_id":"","version":2}'),
    ("/delete", "{}"),
    ("/stats", None),
    ("/store", '{"peer_agent_id":"d","assignments":[{"mr_key":1,"remote_mr_key":2,"target_offset":0,"source_offset":0,'
               '"length":400000}]}'),
    ("/peer-agent", None),
    ("/nothing", None),
    ("/nothing", "{}"),
    ("/stats", None),
]


def call(base, path, body):
    """The status, and the answer unless it is a refusal, whose words are ours."""
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(base).netloc, timeout=60)
    connection.request("GET" if body is None else "POST", path, body=body)
    answer = connection.getresponse()
    text = answer.read()
    if answer.status == 200:
        return answer.status, json.loads(text)
    return answer.status, path == "/nothing" or "error" in json.loads(text)


def compare(theirs, ours):
    n_different = 0
    for path, body in CASES:
        a, b = call(theirs, path, body), call(ours, path, body)
        if a != b:
            n_different += 1
            print(f"{path} {body}\n  theirs: {a}\n  ours:   {b}", file=sys.stderr)
    print(f"{len(CASES)} requests, {n_different} differences")
    return n_different


def expect(condition, what):
    if not condition:
        sys.exit(f"cache.py: {what}")


def refused(call_it, words):
    try:
        call_it()
    except RuntimeError as error:
        expect(words in str(error), f"it says {error}")
    else:
        sys.exit(f"cache.py: not refused: {words}")


def directory(client):
    """Every directory call of the client."""
    manifest = client.store([Assignment(1, 2, 0, 0, SLAB + 1)], peer_agent_id="engine:0")
    manifest = manifest if isinstance(manifest, dict) else manifest_to_json(manifest)
    version = manifest["version"]
    expect([a["length"] for a in manifest["assignments"]] == [SLAB, 1], f"store {manifest}")
    for ask in (client.query, client.load):
        found = ask("engine:0", version)
        found = found if isinstance(found, dict) else manifest_to_json(found)
        expect(found == manifest, f"query {found}")
    deleted = client.delete("engine:0", version)
    expect(deleted is True or deleted == {"deleted": True}, f"delete {deleted}")
    refused(lambda: client.query("engine:0", version), "/query failed with HTTP 404")
    refused(lambda: post_json(client.url, "/store", {}), "/store failed with HTTP 400")
    refused(client.server_peer_agent, "did not publish a usable PeerAgent")
    refused(client.connect_to_server, "did not publish a usable PeerAgent")


def main():
    theirs, ours, ctrl = sys.argv[1:]
    if compare(theirs, ours):
        return 1
    directory(CacheClient(theirs))
    directory(CacheClient(ours))
    found = CacheClient(ctrl=ctrl)
    expect(found.url == ours, f"the control plane says {found.url}, not {ours}")
    directory(found)
    directory(CacheClient(ctrl=ctrl, service_id="cache:none"))  # any of kind "cache"
    return 0


sys.exit(main())
