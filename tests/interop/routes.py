# SPDX-License-Identifier: Apache-2.0
"""The same requests to two servers of one API: routes.py URL REDIS_PORT URL REDIS_PORT. The statuses, the answers that
are no errors and what is in Redis afterwards are to be the same, but for what is listed here as different on purpose."""
import json
import socket
import sys
import urllib.error
import urllib.parse
import urllib.request

from store import Redis

BIG = 18446744073709551615
ODD = 'a:b\n"%2F{\u20ac}\\'

# Route and body, in this order: each works on what those before it left.
CASES = [
    ("/register", '{"entity_id":"e1","kind":"k","metadata":{"n":%d,"f":1.0,"a b":[1, 2]}}' % BIG),
    ("/register", '{"entity_id":"e2","kind":"k","endpoint":{"host":"h"},"resource":null,"metadata":null,"entity_type":"gpu","scope":"s"}'),
    ("/get_entity_info", '{"entity_id":"e1"}'),
    ("/get_entity_info", '{"entity_id":"e2","entity_type":"gpu","scope":"s"}'),
    ("/get_entity_info", '{"entity_id":"nope"}'),
    # In a scope: without one the original lists those of all scopes.
    ("/list_entities", '{"entity_type":"","scope":"s"}'),
    ("/list_entities", '{"entity_type":"","kind":"k","scope":"s"}'),
    ("/list_entities", '{"kind":"","scope":"s"}'),
    ("/list_entities", '{"entity_type":"service"}'),
    ("/list_entities", '{"scope":"s"}'),
    ("/list_entities", '{"scope":"s","kind":"x"}'),
    ("/list_entities", '[null,null,"s"]'),
    ("/heartbeat", '{"entity_type":"service","entity_id":"e1"}'),
    ("/heartbeat", '{"entity_type":"service","entity_id":"zz"}'),
    ("/heartbeat", '{"entity_id":"zz"}'),
    ("/heartbeat", '["service","e1"]'),
    ("/unregister", '{"entity_id":"e1"}'),
    ("/unregister", '{"entity_id":"e1"}'),
    ("/register", ""),
    ("/register", "{"),
    ("/register", "5"),
    ("/register", "[]"),
    ("/register", "null"),
    ("/register", '{"kind":"k"}'),
    ("/register", '{"entity_id":5,"kind":"k"}'),
    ("/register", '{"entity_id":"x","kind":null}'),
    ("/register", '{"entity_id":"x","kind":"k","kind":"k"}'),
    ("/register", '{"entity_type":null,"entity_id":"x","kind":"k"}'),
    ("/register", '{"entity_id":"x","kind":"k","scope":null} tail'),
    ("/register", '{"entity_id":"x","kind":"k","unknown":[1]}'),
    ("/register", '{"entity_id":"\\ud800","kind":"k"}'),
    ("/register", '{"entity_id":"a\\u0000b:*%\\"","kind":"k"}'),
    ("/get_entity_info", '{"entity_id":"a\\u0000b:*%\\""}'),
    ("/register", '["service","y","k",1,{"m":2},3,"s"]'),
    ("/get_entity_info", '["service","y","s"]'),
    ("/start_peer_agent", '{"alias":"a","address":"127.0.0.1","device":"mlx","ib_port":1,"link_type":"RoCE","resource":{"nics":[{"name":"x"}]}}'),
    ("/start_peer_agent", '{"alias":"a","address":"127.0.0.1"}'),
    ("/start_peer_agent", '{"address":"127.0.0.1"}'),
    ("/start_peer_agent", '{"alias":null,"address":"127.0.0.1","name_prefix":"w","ib_port":null}'),
    ("/start_peer_agent", '{"alias":"b"}'),
    ("/start_peer_agent", '{"alias":"b","address":"127.0.0.1","ib_port":-1}'),
    ("/start_peer_agent", '{"alias":"b","address":"127.0.0.1","ib_port":4294967296}'),
    ("/start_peer_agent", '{"alias":"b","address":"127.0.0.1","ib_port":1.0}'),
    ("/start_peer_agent", '{"alias":"b","address":"127.0.0.1","name_prefix":null}'),
    ("/start_peer_agent", '["c","mlx",1,"RoCE","127.0.0.1"]'),
    ("/start_peer_agent", '["d","mlx",1,"RoCE","127.0.0.1","p","s",{"r":1}]'),
    # Names that have a meaning elsewhere, and numbers that others would round.
    ("/start_peer_agent", json.dumps({"alias": ODD, "address": "127.0.0.1"})[:-1]
     + ',"resource":{"gid":%d,"least":-9223372036854775808,"load":1.0,"share":0.1}}' % BIG),
    ("/heartbeat", json.dumps({"entity_type": "agent", "entity_id": ODD})),
    ("/register_mr", json.dumps({"agent_name": ODD, "mr_name": ODD, "addr": BIG, "length": BIG, "rkey": 1})),
    ("/get_mr_info", json.dumps({"src": "x", "dst": ODD, "mr_name": ODD})),
    ("/v1/desired_topology/" + urllib.parse.quote(ODD, safe=""), json.dumps({"target_peers": ["*", "?"], "symmetric": True})),
    ("/start_peer_agent", '{"alias":"r1","address":"127.0.0.1","resource":[1,{"a":2}],"scope":"r"}'),
    ("/start_peer_agent", '{"alias":"r2","address":"127.0.0.1","resource":"text","scope":"r"}'),
    ("/start_peer_agent", '{"alias":"r3","address":"127.0.0.1","resource":5,"scope":"r"}'),
    ("/start_peer_agent", '{"alias":"r4","address":"127.0.0.1","resource":true,"scope":"r"}'),
    ("/query", '{"scope":"r"}'),
    ("/query", "{}"),
    ("/query", '{"scope":"s"}'),
    ("/query", '{"scope":null}'),
    ("/query", "[]"),
    ("/query", '{"scope":5}'),
    ("/heartbeat", '{"entity_type":"agent","entity_id":"a"}'),
    ("/register_mr", '{"agent_name":"a","mr_name":"kv","addr":%d,"length":4,"rkey":4294967295}' % (2**63 - 1)),
    ("/register_mr", '{"agent_name":"a","mr_name":"kv","addr":1,"length":4,"rkey":4294967296}'),
    ("/register_mr", '{"agent_name":"a","mr_name":"kv","addr":-1,"length":4,"rkey":1}'),
    ("/register_mr", '{"agent_name":"a","mr_name":"kv2","addr":1,"length":4,"rkey":1,"lkey":null}'),
    ("/register_mr", '["a","kv3",1,2,3]'),
    ("/register_mr", '["a","kv3",1,2,3,4,"s"]'),
    ("/get_mr_info", '{"src":"b","dst":"a","mr_name":"kv"}'),
    ("/get_mr_info", '{"src":"b","dst":"a","mr_name":"kv3"}'),
    ("/get_mr_info", '["b","a","kv3","s"]'),
    ("/get_mr_info", '{"dst":"a","mr_name":"kv3"}'),
    ("/get_mr_info", '{"src":"b","dst":"a","mr_name":"none"}'),
    ("/v1/desired_topology/a", '{"target_peers":["b","b","c:1"],"min_bw":"1G"}'),
    ("/v1/desired_topology/q", '{"target_peers":["r"],"symmetric":true}'),
    ("/v1/desired_topology/b", '[["z"],"1G",true]'),
    ("/v1/desired_topology/b", '{"target_peers":null}'),
    ("/v1/desired_topology/b", '{"target_peers":[],"symmetric":null}'),
    ("/v1/desired_topology/b", '{"target_peers":[1]}'),
    ("/v1/desired_topology/a%3Ab", '{"target_peers":["q"],"scope":"s"}'),
    ("/v1/desired_topology/%ff", '{"target_peers":[]}'),
    # Their client does not encode the name.
    ("/v1/desired_topology/100%", '{"target_peers":["q"],"scope":"s"}'),
    ("/v1/desired_topology/100%zz", '{"target_peers":["q"],"scope":"s"}'),
    ("/v1/desired_topology/", '{"target_peers":[]}'),
    ("/get_redis_address", "{}"),
    ("/register/", "{}"),
    ("/nothing", "{}"),
    ("STATE", ""),
    ("/cleanup", '{"agent_name":"a"}'),
    ("/cleanup", json.dumps({"agent_name": ODD})),
    ("/cleanup", '{"agent_name":"nobody"}'),
    ("/cleanup", "{}"),
    ("/cleanup", '["q"]'),
    ("STATE", ""),
]

# Method, path, content type of a body of {}.
FORMS = [
    ("POST", "/list_entities", None),
    ("POST", "/list_entities", "text/plain"),
    ("POST", "/list_entities", "application/x+json"),
    ("POST", "/list_entities", "APPLICATION/JSON; charset=x"),
    ("GET", "/register", None),
    ("PUT", "/register", None),
    ("DELETE", "/query", None),
    ("GET", "/", None),
    ("HEAD", "/", None),
    ("POST", "/", None),
]


HEAD = b"POST /register HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
ONE = b'{"entity_id":"w","kind":"k"}'

# Bytes as they go over the wire, in pieces between which an answer is waited for, and how many answers come.
WIRES = [
    ("pipelined", [3 * (HEAD + b"Content-Length: %d\r\n\r\n" % len(ONE) + ONE)], 3),
    ("chunked", [HEAD + b"Transfer-Encoding: chunked\r\n\r\n5;x=y\r\n" + ONE[:5] + b"\r\n%X\r\n" % (len(ONE) - 5) + ONE[5:]
                 + b"\r\n0\r\nTrailer: x\r\n\r\n"], 1),
    ("expecting", [HEAD + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(ONE), ONE], 2),
    ("kept alive", 2 * [HEAD + b"Content-Length: %d\r\n\r\n" % len(ONE) + ONE], 2),
]


def wire(base, pieces, n_answers):
    """The statuses of what comes back."""
    host, port = base.removeprefix("http://").split(":")
    came = b""
    with socket.create_connection((host, int(port)), timeout=60) as s:
        for i, piece in enumerate(pieces):
            s.sendall(piece)
            wanted = n_answers if i + 1 == len(pieces) else i + 1
            while came.count(b"HTTP/1.1 ") < wanted:
                more = s.recv(65536)
                if not more:
                    return came
                came += more
    return [part[:3] for part in came.split(b"HTTP/1.1 ")[1:]]


def call(base, method, path, body, content_type):
    headers = {"Content-Type": content_type} if content_type else {}
    data = None if body is None else body.encode()
    request = urllib.request.Request(base + path, data=data, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def parsed(value):
    try:
        return json.loads(value, parse_int=str, parse_float=str)  # the form counts, not the number
    except ValueError:
        return value


EVENTS = "*nano_events:*"
APART_S = 60  # at most between the same event of one and of the other, on a busy machine


def events(subscriber):
    """What was published since it subscribed, in order, and when; of the time itself its type is what counts."""
    subscriber.send("PING")
    seen = []
    while (message := subscriber.read())[0] != b"pong":
        event = json.loads(message[3], parse_float=str)
        when = event.pop("timestamp")
        event["type of timestamp"] = type(when).__name__
        seen.append((message[2].decode(), event, int(when)))
    return seen


def compare_events(theirs, ours, differ):
    """Ours says of what is removed of which kind it was, too (docs/http-api.md)."""
    if len(theirs) != len(ours):
        differ("events", len(theirs), len(ours))
    for (their_channel, their, their_time), (our_channel, our, our_time) in zip(theirs, ours):
        if our["event_type"] == "REMOVE" and not isinstance(our.pop("kind", None), str):
            differ("a removal without its kind", their, our)
        if (their_channel, their) != (our_channel, our) or abs(their_time - our_time) > APART_S:
            differ("event", (their_channel, their, their_time), (our_channel, our, our_time))


def value_of(redis, key):
    kind = redis("TYPE", key)
    if kind == b"string":
        return parsed(redis("GET", key))
    if kind == b"hash":
        flat = redis("HGETALL", key)
        fields = dict(zip(flat[::2], flat[1::2]))
        fields.pop(b"updated_at", None)
        return {name: parsed(value) for name, value in fields.items()}
    if kind == b"list":
        return [parsed(v) for v in redis("LRANGE", key, 0, -1)]
    if kind == b"stream":
        return [dict(zip(f[::2], f[1::2])) | {b"timestamp": b""} for _, f in redis("XRANGE", key, "-", "+")]
    return kind


def state(redis):
    """Everything but our own indexes, inboxes at the key where agents without a scope listen (the original writes to
    another one only), and streams of agents that were cleaned up (which the original forgets): value and time to live in
    seconds. The end of an inbox that nobody is there to empty is ours alone, and that it is a minute."""
    gone = {b"stream:" + name.encode() for name in ("a", "q", ODD)}
    keys = [k for k in redis("KEYS", "*") if not k.startswith((b"nanoctrl:", b":inbox:")) and k not in gone]
    all_keys = {}
    for k in keys:
        left = redis("PTTL", k) / 1000
        all_keys[k] = value_of(redis, k), -0.001 if k.startswith(b"inbox:") and 0 < left <= 60 else left
    return all_keys


LATER_S = 5  # between the same write of one and of the other


def same(a, b):
    """What two states have of a key: the same value, which ends at the same time, or never with both."""
    return a and b and a[0] == b[0] and (a[1] < 0) == (b[1] < 0) and abs(a[1] - b[1]) <= LATER_S


def comparable(path, text):
    value = parsed(text)
    if path == "/query" and isinstance(value, list):
        return sorted(value, key=lambda agent: agent["name"])
    if path == "/list_entities" and isinstance(value, dict) and "entities" in value:
        return sorted(value["entities"], key=lambda entity: entity["entity_id"])
    if isinstance(value, dict) and "redis_address" in value:
        value["redis_address"] = value["redis_address"].rsplit(":", 1)[0]
    return value


def main():
    theirs, their_port, ours, our_port = sys.argv[1:]
    redis = Redis(int(their_port)), Redis(int(our_port))
    subscribers = Redis(int(their_port)), Redis(int(our_port))
    for subscriber in subscribers:
        subscriber("PSUBSCRIBE", EVENTS)
    n_different = 0

    def differ(what, a, b):
        nonlocal n_different
        n_different += 1
        print(f"{what}\n  theirs: {a}\n  ours:   {b}", file=sys.stderr)

    for path, body in CASES:
        if path == "STATE":
            a, b = state(redis[0]), state(redis[1])
            for key in sorted(a.keys() | b.keys()):
                if not same(a.get(key), b.get(key)):
                    differ(key, a.get(key), b.get(key))
            continue
        a, b = (call(base, "POST", path, body, "application/json") for base in (theirs, ours))
        if a[0] != b[0] or (a[0] == 200 and comparable(path, a[1]) != comparable(path, b[1])):
            differ(f"{path} {body}", a, b)
    for method, path, content_type in FORMS:
        body = "{}" if method == "POST" else None
        a, b = (call(base, method, path, body, content_type) for base in (theirs, ours))
        if a[0] != b[0] or (path == "/" and a != b and a[0] == 200):
            differ(f"{method} {path} {content_type}", a, b)
    for name, pieces, n_answers in WIRES:
        a, b = (wire(base, pieces, n_answers) for base in (theirs, ours))
        if a != b:
            differ(name, a, b)
    their_events, our_events = (events(subscriber) for subscriber in subscribers)
    compare_events(their_events, our_events, differ)
    kinds = {event["event_type"] for _, event, _ in their_events}
    if kinds != {"ADD", "REMOVE"}:
        differ("kinds of events", kinds, {event["event_type"] for _, event, _ in our_events})
    print(f"{len(CASES) + len(FORMS) + len(WIRES)} requests, {len(their_events)} events, {n_different} differences")
    return n_different != 0


sys.exit(main())
