# SPDX-License-Identifier: Apache-2.0
"""Every call of DLSlime's unmodified Python client: client.py URL."""
import sys
import threading

import httpx
from nanoctrl import NanoCtrlClient


def expect(condition, what):
    if not condition:
        sys.exit(f"client.py: {what}")


def entities(url, scope):
    client = NanoCtrlClient(url, scope=scope)
    client.check_connection()
    resource = {"gpu": 0, "address": 2**64 - 1}
    expect(client.register("c1", "cache", endpoint={"port": 1}, metadata={"m": [1.5]}, resource=resource), "register")
    expect(client.heartbeat() == "ok", "heartbeat")
    info = client.get_entity_info("c1")
    expect(info["kind"] == "cache" and info["endpoint"] == {"port": 1} and info["resource"] == resource, f"info {info}")
    expect([e["id"] for e in client.list_entities(kind="cache")] == ["c1"], "list")
    expect(client.list_entities(kind="other") == [], "list of another kind")
    expect(client.get_redis_url().startswith("redis://"), "redis url")
    expect(client.unregister(), "unregister")
    expect(client.heartbeat() in ("not_found", "error"), "heartbeat of one that is gone")
    expect(client.get_entity_info("c1") is None, "info of one that is gone")

    # A thread that beats, hears that its entity is gone, and takes it with it in the end.
    gone = threading.Event()
    client.register("c2", "cache")
    client.start_heartbeat(interval=0.05, on_not_found=gone.set)
    client.unregister()
    expect(gone.wait(60), "start_heartbeat")
    client.register("c2", "cache")
    client.stop_heartbeat()
    expect(client.get_entity_info("c2") is not None, "stop_heartbeat")
    client.stop()
    expect(client.get_entity_info("c2") is None, "stop")


def peers(url, scope):
    client = NanoCtrlClient(url, scope=scope)
    answer = client.register_peer(alias="a:1", address="127.0.0.1", resource={"nics": []}, device="d", ib_port=1,
                                  link_type="RoCE")
    host, port = answer["redis_address"].split(":")
    expect(answer["name"] == "a:1" and host and int(port), f"register_peer {answer}")
    try:
        client.register_peer(alias="a:1", address="127.0.0.1")
        sys.exit("client.py: an alias was given twice")
    except httpx.HTTPStatusError as error:
        expect(error.response.status_code == 409, "not 409")
    other = client.register_peer(alias=None, address="127.0.0.1")["name"]
    expect(client.heartbeat_peer("a:1")["status"] == "ok", "heartbeat_peer")
    expect(client.set_desired_topology("a:1", target_peers=[other], min_bw="1G", symmetric=True)["status"] == "ok",
           "set_desired_topology")
    client.register_peer(alias="100%", address="127.0.0.1")
    expect(client.set_desired_topology("100%", target_peers=[other])["status"] == "ok", "set_desired_topology of 100%")
    expect(client.cleanup_peer("100%")["status"] == "ok", "cleanup_peer of 100%")
    expect({"a:1", other} <= {p["name"] for p in client.query_peers()}, "query_peers")
    expect(client.cleanup_peer("a:1")["status"] == "ok", "cleanup_peer")
    expect(client.heartbeat_peer("a:1")["status"] == "not_found", "heartbeat_peer of one that is gone")
    expect("a:1" not in {p["name"] for p in client.query_peers()}, "query_peers after the cleanup")


for scope in (None, "interop"):
    entities(sys.argv[1], scope)
    peers(sys.argv[1], scope)
