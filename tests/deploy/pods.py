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
import socket
import subprocess
import sys
import tempfile
import time

import yaml

BIN = os.environ["SLIME_BIN"]
BUILD = os.environ["SLIME_BUILD"]
NODES = ["node-a", "node-b"]


def fail(why):
    sys.exit(f"FAILED: {why}")


def until(done, seconds, why):
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            fail(why())
        time.sleep(0.1)


def mount(*words):
    subprocess.run(["mount", *words], check=True)


class Pod:
    def __init__(self, world, name, spec, node, claims):
        self.world, self.name, self.spec, self.node, self.claims = world, name, spec, node, claims
        self.ip = world.make_network(name)
        self.container = spec["containers"][0]
        self.log = world.work / f"{name}.log"

    def volume(self, name):
        """A directory for the volume of this name; None where a tmpfs is to be mounted."""
        if name in self.claims:
            return self.fresh(f"claim-{self.name}-{name}")
        volume = next(v for v in self.spec["volumes"] if v["name"] == name)
        if "hostPath" in volume:
            return self.fresh(f"{self.node}{volume['hostPath']['path']}".replace("/", "_"))
        if "emptyDir" in volume:
            return None
        directory = self.fresh(f"config-{self.name}-{name}")
        for key, text in self.world.config_maps[volume["configMap"]["name"]].items():
            (directory / key).write_text(text)
        return directory

    def fresh(self, name):
        directory = self.world.work / name
        directory.mkdir(exist_ok=True)
        group = self.spec.get("securityContext", {}).get("fsGroup")
        if group is not None:
            os.chown(directory, 0, group)
            directory.chmod(0o775)
        return directory

    def make_root(self):
        root = pathlib.Path(tempfile.mkdtemp(prefix=f"root-{self.name}-", dir=self.world.work))
        root.chmod(0o755)
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
        mounts = [(root / m["mountPath"].lstrip("/"), m["name"]) for m in self.container.get("volumeMounts", [])]
        for target, _ in mounts:
            target.mkdir(parents=True, exist_ok=True)
        if self.container["securityContext"].get("readOnlyRootFilesystem"):
            mount("-o", "remount,ro,bind", str(root))
        for target, name in mounts:
            directory = self.volume(name)
            mount(*(["--bind", str(directory)] if directory else ["-t", "tmpfs", "-o", "mode=1777", "tmpfs"]), str(target))
        return root

    def environment(self):
        fields = {"spec.nodeName": self.node, "status.podIP": self.ip, "metadata.name": self.name}
        return {entry["name"]: entry.get("value") or fields[entry["valueFrom"]["fieldRef"]["fieldPath"]]
                for entry in self.container.get("env", [])}

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
        return next(p["containerPort"] for p in self.container["ports"] if p["name"] == wanted)

    def passes(self, probe):
        if self.process.poll() is not None:
            fail(f"{self.name} ended with {self.process.returncode}: {self.log.read_text()}")
        if "tcpSocket" in probe:
            return self.world.connects(self.ip, self.port(probe["tcpSocket"]["port"]))
        get = probe["httpGet"]
        status, _ = self.world.get(self.ip, self.port(get["port"]), get["path"])
        return status is not None and 200 <= status < 400

    def wait(self, which):
        probe = self.container.get(which)
        if probe:
            until(lambda: self.passes(probe), probe.get("periodSeconds", 10) * max(probe.get("failureThreshold", 3), 12),
                  lambda: f"{self.name}: {which} does not pass: {self.log.read_text()}")

    def replies(self, port, command, wanted):
        """A Redis: until its reply has what is wanted."""
        words = ["redis-cli", "-h", self.ip, "-p", str(port), *command.split()]
        until(lambda: re.search(wanted, subprocess.run(words, text=True, capture_output=True).stdout), 120,
              lambda: f"{self.name}: {command}: no {wanted}: {self.log.read_text()}")

    def succeed(self):
        """A pod of a Job."""
        self.start()
        if self.process.wait(timeout=60) != 0:
            fail(f"{self.name}: {self.log.read_text()}")

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

    def add(self, o):
        """Make the pods of a controller."""
        name, spec = o["metadata"]["name"], o["spec"]
        labels = spec["template"]["metadata"]["labels"]
        if spec.get("selector", {}).get("matchLabels", {}).items() - labels.items():
            fail(f"{name} does not select its own pods")
        claims = [c["metadata"]["name"] for c in spec.get("volumeClaimTemplates", [])]
        for i in range(len(NODES) if o["kind"] == "DaemonSet" else spec.get("replicas", 1)):
            pod = Pod(self, f"{name}-{i}", spec["template"]["spec"], NODES[i % len(NODES)], claims)
            pod.labels = labels
            self.pods.append(pod)

    def hosts(self):
        """Each Service by the first pod that it selects, at the port that it names; pods of a headless one by their names."""
        lines = ["127.0.0.1 localhost"]
        for o in self.objects:
            if o["kind"] != "Service":
                continue
            pods = [p for p in self.pods if o["spec"]["selector"].items() <= p.labels.items()]
            if not pods:
                fail(f"Service {o['metadata']['name']} selects no pod")
            if any(pods[0].port(port["targetPort"]) != port["port"] for port in o["spec"]["ports"]):
                fail(f"Service {o['metadata']['name']}: this runner does not translate ports")
            name, namespace = o["metadata"]["name"], o["metadata"]["namespace"]
            lines.append(f"{pods[0].ip} {name} {name}.{namespace} {name}.{namespace}.svc")
            if o["spec"].get("clusterIP") == "None":
                lines += [f"{pod.ip} {pod.name}.{name}" for pod in pods]
        return "\n".join(lines) + "\n"

    def connects(self, ip, port):
        try:
            socket.create_connection((ip, port), timeout=1).close()
            return True
        except OSError:
            return False

    def get(self, ip, port, path, host=None):
        try:
            connection = http.client.HTTPConnection(ip, port, timeout=5)
            connection.request("GET", path, headers={"Host": host} if host else {})
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            return None, b""

    def run(self):
        for kind in ["StatefulSet", "Deployment", "DaemonSet"]:
            for o in self.objects:
                if o["kind"] == kind:
                    self.add(o)
        for pod in self.pods:
            pod.start()
        for pod in self.pods:
            for which in ["startupProbe", "readinessProbe", "livenessProbe"]:
                pod.wait(which)
        self.check()
        self.add(next(o for o in self.objects if o["kind"] == "Job"))
        self.pods.pop().succeed()
        self.check_links()
        if self.named("sentinel"):
            self.fail_over()
        for pod in reversed(self.pods):
            pod.stop()

    def named(self, name):
        return [p for p in self.pods if p.name.rpartition("-")[0] == name]

    def fail_over(self):
        """The primary dies; its pod comes back as a replica."""
        primary = self.pods[0]
        primary.process.kill()
        primary.process.wait()
        self.named("sentinel")[0].replies(26379, "SENTINEL get-master-addr-by-name main", r"redis-[12]\.redis")
        print(f"{primary.name} was killed, and another one is the primary", flush=True)
        for pod in self.named("nanoctrl"):
            pod.wait("readinessProbe")
        primary.start()
        primary.replies(6379, "ROLE", "slave")
        print(f"{primary.name} is a replica", flush=True)
        self.check()
        self.check_links()

    def check(self):
        for pod in self.named("nanoctrl"):
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
        def links():
            return self.get(self.named("nanoctrl")[0].ip, 3000, "/v1/links?scope=serving", "nanoctrl.slime.svc:3000")

        until(lambda: links()[1].count(b'"state":"connected"') == 2, 60, lambda: f"the links of the topology: {links()}")
        print("both agents report the link of the topology as connected", flush=True)


# What is left ends with the namespaces.
World([o for o in yaml.safe_load_all(open(sys.argv[1])) if o], pathlib.Path(sys.argv[2])).run()
