#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the pods of manifests as they are written: command, arguments, environment, volumes, user, capabilities, probes
and SIGTERM, in network and mount namespaces of its own. usage, as root:

    unshare --mount --net --pid --fork --mount-proc pods.py MANIFESTS.yaml WORK_DIRECTORY

A cluster is more than this: nothing is scheduled, each pod is a process in a network namespace of its own (which is its
node's where it asks for that), a Service is a line of /etc/hosts, and network policies, resources and seccomp profiles
are not enforced.
"""
import http.client
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import yaml

BIN = os.environ["SLIME_BIN"]
BUILD = os.environ["SLIME_BUILD"]
NODES = ["node-a", "node-b"]


def fail(why):
    sys.exit(f"FAILED: {why}")


def mount(*words):
    subprocess.run(["mount", *words], check=True)


class Pod:
    def __init__(self, world, name, spec, node, claims):
        self.name, self.spec, self.node = name, spec, node
        self.ip = world.make_network(name)
        self.container = spec["containers"][0]
        self.world = world
        self.claims = claims
        self.log = world.work / f"{name}.log"
        self.process = None

    def volume(self, name):
        """A directory for the volume of this name; None where a tmpfs is to be mounted."""
        if name in self.claims:
            return self.fresh(f"claim-{self.name}-{name}")
        for volume in self.spec.get("volumes", []):
            if volume["name"] != name:
                continue
            if "configMap" in volume:
                directory = self.fresh(f"config-{self.name}-{name}")
                for key, text in self.world.config_maps[volume["configMap"]["name"]].items():
                    (directory / key).write_text(text)
                return directory
            if "hostPath" in volume:
                return self.fresh(f"{self.node}{volume['hostPath']['path']}".replace("/", "_"))
            if "emptyDir" in volume:
                return None
        fail(f"{self.name}: no volume {name}")

    def fresh(self, name):
        directory = self.world.work / name
        directory.mkdir(exist_ok=True)
        group = self.spec.get("securityContext", {}).get("fsGroup")
        if group is not None:
            os.chown(directory, 0, group)
            directory.chmod(0o775)
        return directory

    def make_root(self):
        root = self.world.work / f"root-{self.name}"
        root.mkdir()
        mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", str(root))
        for path in ["/usr", "/proc", "/dev", BUILD]:
            target = root / path.lstrip("/")
            target.mkdir(parents=True, exist_ok=True)
            mount("--rbind", path, str(target))
        for link in ["bin", "sbin", "lib", "lib64"]:
            (root / link).symlink_to(f"usr/{link}")
        (root / "etc").mkdir()
        (root / "etc/hosts").write_text(self.world.hosts())
        (root / "etc/ld.so.cache").write_bytes(pathlib.Path("/etc/ld.so.cache").read_bytes())
        (root / "etc/nsswitch.conf").write_text("hosts: files\n")
        for volume in self.container.get("volumeMounts", []):
            (root / volume["mountPath"].lstrip("/")).mkdir(parents=True, exist_ok=True)
        if self.container["securityContext"].get("readOnlyRootFilesystem"):
            mount("-o", "remount,ro,bind", str(root))
        for volume in self.container.get("volumeMounts", []):
            target = str(root / volume["mountPath"].lstrip("/"))
            directory = self.volume(volume["name"])
            if directory is None:
                mount("-t", "tmpfs", "-o", "mode=1777", "tmpfs", target)
            else:
                mount("--bind", str(directory), target)
        return root

    def environment(self):
        fields = {"spec.nodeName": self.node, "status.podIP": self.ip, "metadata.name": self.name}
        env = {}
        for entry in self.container.get("env", []):
            env[entry["name"]] = entry.get("value") or fields[entry["valueFrom"]["fieldRef"]["fieldPath"]]
        return env

    def start(self):
        env = self.environment()
        words = [
            re.sub(r"\$\((\w+)\)", lambda match: env.get(match[1], match[0]), word)
            for word in self.container["command"] + self.container.get("args", [])
        ]
        pod_security = self.spec.get("securityContext", {})
        security = self.container["securityContext"]
        user = pod_security.get("runAsUser", 0)
        if pod_security.get("runAsNonRoot") and user == 0:
            fail(f"{self.name} may not run as root")
        bounding = "" if security.get("privileged") else "-all"
        for capability in security.get("capabilities", {}).get("add", []) if bounding else []:
            bounding += f",+{capability.lower()}"
        setpriv = ["setpriv", "--reuid", str(user), "--regid", str(pod_security.get("runAsGroup", 0)), "--clear-groups"]
        if bounding:
            setpriv += ["--bounding-set", bounding, "--inh-caps", "-all"]
        if security.get("allowPrivilegeEscalation") is False:
            setpriv.append("--no-new-privs")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                ["ip", "netns", "exec", self.name, "/usr/sbin/chroot", str(self.make_root()), *setpriv, *words],
                env={"PATH": f"{BIN}:/usr/sbin:/usr/bin", **env, **self.world.sanitizers},
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)

    def port(self, wanted):
        for port in self.container["ports"]:
            if port["name"] == wanted:
                return port["containerPort"]
        return wanted if isinstance(wanted, int) else fail(f"{self.name}: no port {wanted}")

    def passes(self, probe):
        if "tcpSocket" in probe:
            return self.world.connects(self.ip, self.port(probe["tcpSocket"]["port"]))
        get = probe["httpGet"]
        status, _ = self.world.get(self.ip, self.port(get["port"]), get["path"])
        return status is not None and 200 <= status < 400

    def wait(self, which):
        probe = self.container.get(which)
        if not probe:
            return
        end = time.monotonic() + probe.get("periodSeconds", 10) * max(probe.get("failureThreshold", 3), 12)
        while not self.passes(probe):
            if self.process.poll() is not None:
                fail(f"{self.name} ended with {self.process.returncode}: {self.log.read_text()}")
            if time.monotonic() > end:
                fail(f"{self.name}: {which} does not pass: {self.log.read_text()}")
            time.sleep(0.1)
        print(f"{self.name}: {which} passes", flush=True)

    def succeed(self):
        """A pod of a Job."""
        self.start()
        if self.process.wait(timeout=60) != 0:
            fail(f"{self.name}: {self.log.read_text()}")
        print(f"{self.name}: succeeded", flush=True)

    def stop(self):
        grace = self.spec["terminationGracePeriodSeconds"]
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(timeout=grace)
        except subprocess.TimeoutExpired:
            self.process.kill()
            fail(f"{self.name} needs more than its {grace} s to end")
        if status != 0:
            fail(f"{self.name} ended with {status}: {self.log.read_text()}")
        print(f"{self.name}: ended on SIGTERM", flush=True)


class World:
    def __init__(self, objects, work):
        self.work = work
        self.objects = objects
        self.config_maps = {o["metadata"]["name"]: o["data"] for o in objects if o["kind"] == "ConfigMap"}
        self.n_ips = 0
        self.pods = []
        self.sanitizers = {k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")}
        mount("-t", "tmpfs", "tmpfs", "/run")
        self.ip("link add br0 type bridge", "link set br0 up", "address add 10.99.0.254/24 dev br0")

    def ip(self, *commands):
        for command in commands:
            subprocess.run(["ip", *command.split()], check=True)

    def make_network(self, name):
        """A network namespace of this name, and its address."""
        self.n_ips += 1
        n, ip = self.n_ips, f"10.99.0.{self.n_ips}"
        self.ip(f"netns add {name}", f"link add veth{n} type veth peer name eth0 netns {name}",
                f"link set veth{n} master br0 up", f"-n {name} address add {ip}/24 dev eth0",
                f"-n {name} link set lo up", f"-n {name} link set eth0 up")
        return ip

    def add(self, kind, name):
        """Make the pods of a controller."""
        for o in self.objects:
            if o["kind"] != kind or o["metadata"]["name"] != name:
                continue
            template = o["spec"]["template"]
            labels = o["spec"].get("selector", {}).get("matchLabels", {})
            if labels.items() - template["metadata"]["labels"].items():
                fail(f"{kind} {name} does not select its own pods")
            claims = [c["metadata"]["name"] for c in o["spec"].get("volumeClaimTemplates", [])]
            for i in range(len(NODES) if kind == "DaemonSet" else o["spec"].get("replicas", 1)):
                pod = Pod(self, f"{name}-{i}", template["spec"], NODES[i % len(NODES)], claims)
                pod.labels = template["metadata"]["labels"]
                self.pods.append(pod)
            return self.pods[-1:]
        fail(f"no {kind} {name}")

    def hosts(self):
        """Each Service by the first pod that it selects, at the port that it names."""
        lines = ["127.0.0.1 localhost"]
        for o in self.objects:
            if o["kind"] != "Service":
                continue
            pods = [p for p in self.pods if o["spec"]["selector"].items() <= p.labels.items()]
            if not pods:
                fail(f"Service {o['metadata']['name']} selects no pod")
            for port in o["spec"]["ports"]:
                if pods[0].port(port["targetPort"]) != port["port"]:
                    fail(f"Service {o['metadata']['name']}: this runner does not translate ports")
            name, namespace = o["metadata"]["name"], o["metadata"]["namespace"]
            lines.append(f"{pods[0].ip} {name} {name}.{namespace} {name}.{namespace}.svc")
        return "\n".join(lines) + "\n"

    def connects(self, ip, port):
        connection = http.client.HTTPConnection(ip, port, timeout=1)
        try:
            connection.connect()
            return True
        except OSError:
            return False
        finally:
            connection.close()

    def get(self, ip, port, path, host=None):
        connection = http.client.HTTPConnection(ip, port, timeout=5)
        try:
            connection.request("GET", path, headers={"Host": host} if host else {})
            answer = connection.getresponse()
            return answer.status, answer.read()
        except OSError:
            return None, b""
        finally:
            connection.close()

    def run(self):
        for kind, name in [("StatefulSet", "redis"), ("Deployment", "nanoctrl"), ("DaemonSet", "peeragent")]:
            self.add(kind, name)
        for pod in self.pods:
            pod.start()
            for which in ["startupProbe", "readinessProbe", "livenessProbe"]:
                pod.wait(which)
        self.check()
        self.add("Job", "topology")
        job = self.pods.pop()
        job.succeed()
        self.check_links()
        for pod in reversed(self.pods):
            pod.stop()

    def check(self):
        ctrl = [p for p in self.pods if p.name.startswith("nanoctrl")]
        for pod in ctrl:
            status, body = self.get(pod.ip, 3000, "/v1/agents?scope=serving", "nanoctrl.slime.svc:3000")
            names = sorted(a["name"] for a in json.loads(body)["agents"]) if status == 200 else status
            if names != NODES:
                fail(f"{pod.name} knows the agents {names}: {body}")
            status, _ = self.get(pod.ip, 3000, "/v1/agents?scope=serving", "elsewhere.example")
            if status != 421:
                fail(f"{pod.name} answers {status} to a name that is not its own")
        print("each replica knows both agents", flush=True)

    def check_links(self):
        """The topology links the agents."""
        ctrl = self.pods[1]
        end = time.monotonic() + 60
        while True:
            status, body = self.get(ctrl.ip, 3000, "/v1/links?scope=serving", "nanoctrl.slime.svc:3000")
            links = json.loads(body)["links"] if status == 200 else []
            if [link["state"] for link in links] == ["connected"] * 2:
                break
            if time.monotonic() > end:
                fail(f"the links of the topology: {status} {body}")
            time.sleep(0.2)
        print("both agents report the link of the topology as connected", flush=True)


def main():
    objects = [o for o in yaml.safe_load_all(open(sys.argv[1])) if o]
    world = World(objects, pathlib.Path(sys.argv[2]))
    try:
        world.run()
    finally:
        for pod in world.pods:
            if pod.process and pod.process.poll() is None:
                pod.process.kill()


main()
