# SPDX-License-Identifier: Apache-2.0
"""What bench/targets compares: one row for each claim.

A side is a command that measures in rounds: a round for each line on its standard input, printed as one line of
JSON. Rows that say warm touch the same blocks again and again, cold ones walk over 512 MiB.
"""

from typing import NamedTuple, Optional


class Target(NamedTuple):
    """What the ratio must be. Of a row without a reference the ratio is our figure itself."""

    word: str
    limit: float

    def met(self, ratio):
        return ratio <= self.limit if self.word == "<=" else ratio >= self.limit

    def ratio(self, reference, ours):
        if reference is None:
            return ours
        return reference / ours if self.word == "faster" else ours / reference

    def __str__(self):
        return f"{self.word} {self.limit:g}"


def at_least(limit):
    return Target(">=", limit)


def at_most(limit):
    return Target("<=", limit)


def faster(limit):
    return Target("faster", limit)


class Figure(NamedTuple):
    """A field of a round's line, and its unit."""

    field: str
    unit: str


P50 = Figure("p50_us", "us")
AVERAGE = Figure("avg_us", "us")
POST = Figure("post_us", "us")
PIECE = Figure("piece_us", "us")  # of a post, for each piece
BANDWIDTH = Figure("p50_gb_s", "GB/s")  # of the median batch
THROUGHPUT = Figure("gb_s", "GB/s")  # of all batches in flight
RATE = Figure("per_s", "/s")
P99 = Figure("p99_us", "us")
LATE = Figure("late_s", "s")  # beyond the grace of a lost session
SLOWEST = Figure("slowest_us", "us")  # command in Redis
SERVER_CPU = Figure("cpu_percent", "%")  # of one core, that nanoctrl takes
SERVER_MEMORY = Figure("kib_each", "KiB")  # resident memory of nanoctrl for each agent
CPU = Figure("cpu_s_gib", "s/GiB")  # of both processes
LINK_MEMORY = Figure("kib_each", "KiB")  # resident memory of both ends for each link
IDLE_CPU = Figure("cpu_percent", "%")  # of one CPU, of both processes
CONNECTED = Figure("connected_s", "s")  # from apply until all links are connected
APPLIED = Figure("apply_ms", "ms")  # the command line, from its start to its end
IN_REDIS = Figure("redis_ms", "ms")  # the longest command in Redis
TOLD = Figure("told_s", "s")  # until an agent that joins has its links
WRONG = Figure("wrong_pages", "pages")  # that came with bytes of others


class Row(NamedTuple):
    name: str
    ours: str
    reference: Optional[str]  # None: our figure stands alone
    figure: Figure
    target: Target
    source: str = ""  # warm or cold, where bytes have a source
    at_once: int = 1  # how many of ours measure at the same time; the figure is their sum
    least: int = 5  # rounds
    rdma: bool = False  # both commands take the devices of the run
    rails: int = 1  # of ours; the reference has as many links, at the same time, and the figure is their sum
    adapters: Optional[Target] = None  # what holds between adapters, where that is another than on soft-RoCE
    adapters_reference: Optional[str] = None
    devices: str = ""  # of rdma: of which ones this target is, "adapters" or "soft-RoCE"; "": not said yet

    def on_adapters(self):
        return self._replace(
            target=self.adapters or self.target,
            reference=self.adapters_reference or self.reference,
            devices=ADAPTERS,
        )

    def on_soft_roce(self):
        return self._replace(devices=SOFT_ROCE)

    def claim(self):
        """What the ratio must be, and on what: on either, as long as nobody said which."""
        if self.adapters and not self.devices:
            return f"{self.target} {SOFT_ROCE}, {self.adapters} {ADAPTERS}"
        return f"{self.target} {self.devices}".strip()


ADAPTERS = "adapters"
SOFT_ROCE = "soft-RoCE"


def read_row(name, options, reference, figure, target):
    source = "cold" if "--cold" in options else "warm"
    return Row(name, f"slime-measure read {options}", f"slime-reference {reference}", figure, target, source)


def peer_row(name, peer, op, blocks, target):
    """Blocks over TCP beside a transfer engine; both walk over 512 MiB of the server's."""
    n, size = blocks
    ours = f"slime-measure {op} {TCP} --block {size} --batch {n} --cold"
    return Row(name, ours, f"{peer} --op {op} --block {size} --batch {n}", BANDWIDTH, target, "cold")


def rpc_row(name, options, reference, target, figure=P50):
    return Row(name, f"slime-measure rpc {options}", reference, figure, target, "warm")


def links_row(transport, n, reference, target):
    """One call at a time on each link in turn: what the links cost that have nothing to say."""
    ours = f"slime-measure links --transport {transport} --links {n} --size 64"
    return Row(f"links-{transport}-{n}", ours, f"slime-reference {reference} --links {n} --size 64", P50, target, "warm")


def mixed_rows(name, options, peer, p50, p99):
    """Calls of 1 KiB beside 16 reads of 1 MiB. The peer has a socket, or a kind of message, for each."""
    ours, reference = f"slime-measure mixed --size 1KiB {options}", f"{peer} --size 1KiB"
    return [
        Row(f"{name}-{end}", ours, reference, figure, at_most(limit), "warm")
        for end, figure, limit in (("p50", P50, p50), ("p99", P99, p99))
    ]


def mixed_bulk_row(name, transport):
    """What is left of the reads' bandwidth beside those calls."""
    reads = f"slime-measure read {transport} --block 1MiB --batch 1 --inflight 16 --count"
    return Row(name, f"slime-measure mixed --size 1KiB {transport}", reads, THROUGHPUT, at_least(0.9), "warm")


def crowd_row(name, options):
    """Two pairs of processes on two CPUs: together they do at least half of what one pair does."""
    ours = f"slime-measure rpc {options}"
    return Row(name, ours, ours, RATE, at_least(0.5), "warm", at_once=2)


def control_row(name, route, connections, target):
    """Our control plane beside the original; each has a Redis of its own with the same settings."""
    load = f"--route {route} --connections {connections}"
    return Row(name, f"control ours {load}", f"control original {load}", RATE, target, AOF_OFF)


def foreign_row(route):
    """Ours, in a Redis with a million keys of others beside an empty one; 0.9 is what two alike differ by."""
    # A rendezvous is of every two: of 16 it is over before it can be measured.
    ours = f"control ours --route {route} --connections {32 if route == 'v1-rendezvous' else 16}"
    return Row(f"ctrl-foreign-{route}", f"{ours} --foreign 1000000", ours, RATE, at_least(0.9), AOF_OFF)


def rdma_row(name, options, reference, figure, target, adapters, adapters_reference=None):
    """Between two devices, or one and itself: perftest beside ours, in nine rounds and more."""
    ours = f"slime-measure {options} --transport rdma --round 1s"
    row = Row(name, ours, f"perftest {reference}", figure, target, "warm", least=9, rdma=True, adapters=adapters)
    return row._replace(adapters_reference=f"perftest {adapters_reference}") if adapters_reference else row


def rdma_block_row(op, name, size, depth, target=None, qps=1):
    """As many blocks in flight as perftest has, no two in one request, and like perftest's of the same bytes at both ends.
    Counted: to time each takes perftest a look at the processor's counter, and ours one at a clock that is a system call
    in some guests. Between adapters perftest divides them among as many queue pairs as ours; soft-RoCE is a CPU, for
    which one is best."""
    options = f"{op} --block {size} --batch 1 --inflight {depth} --one-place --qps {qps} --count"
    reference = f"ib_{op}_bw --size {size} --depth {depth}"
    divided = f"ib_{op}_bw --size {size} --depth {depth // qps} --qps {qps}" if qps > 1 else None
    at_all = target or at_least(0.95)
    return rdma_row(f"rdma-{op}-{name}", options, reference, THROUGHPUT, at_all, at_least(0.98), divided)


def rails_row(name, op, rails):
    """One link with all rails beside a link on each of them, which has the machine's CPUs to itself no more than ours."""
    command = f"slime-measure {op} --block 1048576 --batch 1 --inflight {{}} --transport rdma --round 1s"
    ours, reference = command.format(16 * rails), command.format(16)
    return Row(name, ours, reference, THROUGHPUT, at_least(0.9), "warm", least=9, rdma=True, rails=rails)


def slimerpc_row(name, size, target, adapters):
    """DLSlime's calls; both sides' requests lie in registered memory."""
    ours = f"slime-measure rpc --size {size} --memory registered --transport rdma --round 1s"
    reference = f"slimerpc --size {size}"
    return Row(f"rdma-rpc-slime-{name}", ours, reference, AVERAGE, target, "warm", least=9, rdma=True, adapters=adapters)


def page_row(name, options, reference, figure, target):
    """A store of pages, an owner and a reader on this host, which both walk over 512 MiB."""
    return Row(name, f"pages {options}", reference, figure, target, "cold")


def page_rdma_row(name, size, batch):
    """As many reads in flight as a batch has pages, on one queue pair."""
    ours = f"pages get {PAGES_128K} --verify never --transport rdma"
    reference = f"perftest ib_read_bw --size {size} --depth {batch}"
    return Row(name, ours, reference, THROUGHPUT, at_least(0.95), "cold", least=9, rdma=True, adapters=at_least(0.97))


def page_peer_rows(name, reference):
    """The same batch of pages by a store of others, over tcp; ours over tcp, and over shm, which it does not have."""
    ours = f"get {PAGES_128K}"
    rows = (("", f"{ours} {TCP}", 1.8), ("-shm", ours, 3))
    return [page_row(f"page-get-{name}{end}", command, reference, BANDWIDTH, at_least(least)) for end, command, least in rows]


def nixl_row(name, transports, tls, options, figure, target):
    """Two agents of NIXL's wheel: our back end beside its UCX."""
    ours = f"nixl-agents --backend SLIME {transports} {options}"
    source = "warm" if "--measure" in options else "cold"
    return Row(name, ours, f"nixl-agents --backend UCX {tls} {options}", figure, target, source)


def python_rpc_row(name, options, target):
    """Python calls Python on this host: our package beside pyzmq."""
    command = f"python-pair rpc --library {{}} --size 1024 {options}".strip()
    return Row(name, command.format("libslime"), command.format("zmq"), P50, target, "warm")


CRASH = "--route crash --agents 1100 --kill 1000 --regions 16 --links 8"
HOLD = "--route hold --agents 10000"
FOREIGN = (  # every kind of route: one entity, lists, agents, regions, and the native ones
    "register",
    "heartbeat",
    "lookup",
    "list",
    "query",
    "agent",
    "topology",
    "put-mr",
    "get-mr",
    "v1-register",
    "v1-heartbeat",
    "v1-lookup",
    "v1-rendezvous",
)
AOF_OFF = "aof off"  # of Redis: no file is written; the rest are its defaults
BLOCKS_128K = "--block 128KiB --batch 32"
BLOCKS_4K = "--block 4KiB --batch 256"
PAGES = "--block 4KiB --batch 32 --cold"
SCATTERED = "--block 4KiB --batch 15000 --cold --scatter"
TCP = "--transport tcp"
MEMCPY_128K = f"slime-reference memcpy {BLOCKS_128K} --cold"
TCP_READ_128K = f"slime-reference tcp-read {BLOCKS_128K} --cold"
KEYS = "--page-size 4096 --batch 1000 --working-set 131072"
PAGES_128K = "--page-size 131072 --batch 32 --working-set 4096"
NIXL_TCP = "--transports tcp"
NIXL_SHM = "--transports shm"
UCX_TCP = "--tls tcp"
NIXL_128K = "--block 131072 --batch 32"
NIXL_4K = "--block 4096 --batch 32"
PEER_128K = (32, 128 << 10)
PEER_4K = (32, 4 << 10)

ROWS = [
    # Bytes of a peer on this host.
    read_row("shm-read-128k", BLOCKS_128K, f"memcpy {BLOCKS_128K}", BANDWIDTH, at_least(0.95)),
    read_row("shm-read-128k-cold", f"{BLOCKS_128K} --cold", f"memcpy {BLOCKS_128K} --cold", BANDWIDTH, at_least(0.95)),
    read_row("shm-read-4k", BLOCKS_4K, f"memcpy {BLOCKS_4K}", BANDWIDTH, at_least(0.6)),
    read_row("shm-read-4k-cold", f"{BLOCKS_4K} --cold", f"memcpy {BLOCKS_4K} --cold", BANDWIDTH, at_least(0.9)),
    read_row("shm-foreign", f"{BLOCKS_128K} --foreign", f"pull {BLOCKS_128K}", BANDWIDTH, at_least(0.95)),
    read_row(
        "shm-foreign-cold", f"{BLOCKS_128K} --foreign --cold", f"pull {BLOCKS_128K} --cold", BANDWIDTH, at_least(0.95)
    ),
    # Calls on this host, against two processes that spin on a mailbox.
    rpc_row("shm-rpc-64", "--size 64", "slime-reference mailbox --size 64", at_most(1.5)),
    rpc_row("shm-rpc-1k", "--size 1KiB", "slime-reference mailbox --size 1KiB", at_most(1.3)),
    # Long ones between registered memories, against UCX.
    rpc_row("shm-rpc-64k", f"--size {64 << 10} --memory registered", f"ucx --size {64 << 10}", at_most(1.0)),
    rpc_row("shm-rpc-256k", f"--size {256 << 10} --memory registered", f"ucx --size {256 << 10}", at_most(1.0)),
    rpc_row("shm-rpc-1m", f"--size {1 << 20} --memory registered", f"ucx --size {1 << 20}", at_most(1.0)),
    # These take longer than an adaptive end spins, and their references never sleep.
    rpc_row("shm-rpc-16m", "--size 16MiB --polling busy", "slime-reference mailbox --size 16MiB", at_most(1.1)),
    rpc_row(
        "shm-rpc-16m-inplace",
        "--size 16MiB --memory in-place --polling busy",
        "slime-reference memcpy --block 16MiB --batch 1",
        at_most(1.2),
    ),
    rpc_row("shm-rpc-sleep", "--size 1KiB --polling event", "slime-reference futex", at_most(1.3)),
    rpc_row(
        "shm-rpc-rate",
        "--size 64 --inflight 64 --count",
        "slime-measure rpc --size 64 --inflight 1 --count",
        at_least(4),
        figure=RATE,
    ),
    # Four processes on two CPUs.
    crowd_row("shm-rpc-crowd", "--size 64"),
    crowd_row("shm-rpc-crowd-16k", "--size 16KiB"),
    crowd_row("tcp-rpc-crowd", f"{TCP} --size 64"),
    # Many links of one process.
    links_row("tcp", 64, "tcp-links", at_most(1.3)),
    links_row("shm", 256, "mailbox", at_most(3)),
    links_row("shm", 900, "mailbox", at_most(2)),
    Row("link-memory", f"slime-measure rest {TCP} --links 64 --round 1s", None, LINK_MEMORY, at_most(102), "warm"),
    Row("links-idle", f"slime-measure rest {TCP} --links 900 --round 1s", None, IDLE_CPU, at_most(0.3), "warm"),
    # Calls while bulk is on its way.
    *mixed_rows("mixed-shm", "", "baseline-ucx-mixed", 0.5, 0.75),
    *mixed_rows("mixed-tcp", TCP, "baseline-zeromq-mixed", 0.65, 0.35),
    *mixed_rows("mixed-tcp-other", f"{TCP} --other-link", "baseline-zeromq-mixed", 0.65, 0.35),
    mixed_bulk_row("mixed-shm-bulk", "--transport shm"),
    mixed_bulk_row("mixed-tcp-bulk", TCP),
    # The same calls by what programs use today.
    rpc_row("shm-rpc-zmq", "--size 1KiB", "baseline-zeromq --size 1KiB", faster(22)),
    rpc_row("shm-rpc-grpc", "--size 1KiB", "baseline-grpc --size 1KiB", faster(40)),
    # From Python; a batch beside the same one from C.
    python_rpc_row("py-rpc-1k-sync", "", at_most(0.5)),
    python_rpc_row("py-rpc-1k-asyncio", "--asyncio", at_most(0.7)),
    Row(
        "py-read-128k",
        "python-pair read --block 131072 --batch 32",
        f"slime-measure read {BLOCKS_128K} --cold",
        BANDWIDTH,
        at_least(0.95),
        "cold",
    ),
    Row("py-post-1024", "python-pair post --block 64 --batch 1024", None, PIECE, at_most(1), "warm"),
    # Over TCP, against one socket.
    read_row("tcp-read-128k", f"{TCP} {BLOCKS_128K} --cold", f"tcp-read {BLOCKS_128K} --cold", BANDWIDTH, at_least(0.95)),
    read_row("tcp-read-4k", f"{TCP} {PAGES}", f"tcp-read {PAGES}", BANDWIDTH, at_least(0.8)),
    read_row("tcp-read-cpu", f"{TCP} {BLOCKS_128K} --cold", f"tcp-read {BLOCKS_128K} --cold", CPU, at_most(1.15)),
    peer_row("tcp-read-peers-mooncake", "mooncake", "read", PEER_128K, at_least(1.7)),
    peer_row("tcp-read-peers-nixl", "nixl", "read", PEER_128K, at_least(2)),
    peer_row("tcp-read-peers-4k-mooncake", "mooncake", "read", PEER_4K, at_least(10)),
    peer_row("tcp-read-peers-4k-nixl", "nixl", "read", PEER_4K, at_least(2)),
    peer_row("tcp-read-peers-write-nixl", "nixl", "write", PEER_128K, at_least(1)),
    nixl_row("nixl-tcp-128k", NIXL_TCP, UCX_TCP, NIXL_128K, BANDWIDTH, at_least(3)),
    nixl_row("nixl-tcp-4k", NIXL_TCP, UCX_TCP, NIXL_4K, BANDWIDTH, at_least(3)),
    nixl_row("nixl-shm-128k", NIXL_SHM, "", NIXL_128K, BANDWIDTH, at_least(1)),
    # One handle, posted again and again; and, cold, a handle for each batch, where the kernel copies pages that no cache has.
    nixl_row("nixl-shm-4k", NIXL_SHM, "", f"--measure repost {NIXL_4K}", BANDWIDTH, at_least(4)),
    nixl_row("nixl-shm-4k-cold", NIXL_SHM, "", NIXL_4K, BANDWIDTH, at_least(2)),
    nixl_row("nixl-shm-4k-cma", NIXL_SHM, "--tls posix,cma,tcp", NIXL_4K, BANDWIDTH, at_least(1)),
    nixl_row("nixl-notif", NIXL_SHM, "", "--measure notif", P50, at_most(1)),
    nixl_row("nixl-post", NIXL_TCP, UCX_TCP, "--measure post --block 64 --batch 1024", POST, at_most(0.5)),
    rpc_row("tcp-rpc-64", f"{TCP} --size 64", "slime-reference tcp-echo --size 64 --wait spin", at_most(1.2)),
    rpc_row(
        "tcp-rpc-64-sleep",
        f"{TCP} --size 64 --polling event",
        "slime-reference tcp-echo --size 64 --wait sleep",
        at_most(1.2),
    ),
    rpc_row(
        "tcp-rpc-rate",
        f"{TCP} --size 64 --inflight 64 --count",
        "slime-reference tcp-rate --size 64 --inflight 64",
        at_least(0.7),
        figure=RATE,
    ),
    rpc_row("tcp-rpc-16m", f"{TCP} --size 16MiB", "slime-reference tcp-echo --size 16MiB --wait spin", at_most(1.2)),
    # An actor of Ray.
    rpc_row("rpc-ray-1k", "--size 1KiB", "ray-echo --size 1024 --kind best", faster(300), AVERAGE),
    rpc_row("rpc-ray-16m-bytes", "--size 16MiB", f"ray-echo --size {16 << 20} --kind bytes", faster(2), AVERAGE),
    rpc_row("rpc-ray-16m", "--size 16MiB", f"ray-echo --size {16 << 20} --kind best", faster(1.25), AVERAGE),
    rpc_row(
        "rpc-ray-16m-inplace",
        "--size 16MiB --memory in-place",
        f"ray-echo --size {16 << 20} --kind best",
        faster(3.5),
        AVERAGE,
    ),
    # Over RDMA, against perftest.
    rdma_block_row("read", "64k", 64 << 10, 128),
    rdma_block_row("read", "1m", 1 << 20, 16),
    rdma_block_row("write", "64k", 64 << 10, 128),
    rdma_block_row("write", "1m", 1 << 20, 16),
    rdma_block_row("read", "8qp", 64 << 10, 128, at_least(1.0), qps=8),
    # One link of two rails, against a link on each.
    rails_row("rdma-rails", "write", 2),
    rdma_row("rdma-write-lat-64", "bounce --size 64", "ib_write_lat --size 64", P50, at_most(1.1), at_most(1.05)),
    rdma_row("rdma-rpc-1k", "rpc --size 1KiB", "ib_write_lat --size 1024 --trips 2", P50, at_most(1.2), at_most(1.3)),
    slimerpc_row("1k", 1 << 10, faster(10), faster(6)),
    slimerpc_row("64k", 64 << 10, faster(5), faster(3)),
    slimerpc_row("1m", 1 << 20, faster(2), faster(1.5)),
    slimerpc_row("16m", 16 << 20, faster(2), faster(1.5)),
    # The control plane, over HTTP on this host, in closed loop.
    control_row("ctrl-heartbeat-16", "heartbeat", 16, at_least(3)),
    control_row("ctrl-heartbeat-64", "heartbeat", 64, at_least(3)),
    control_row("ctrl-heartbeat-1", "heartbeat", 1, at_least(1.5)),
    control_row("ctrl-register-16", "register", 16, at_least(3)),
    control_row("ctrl-register-64", "register", 64, at_least(3)),
    control_row("ctrl-list", "list", 16, at_least(15)),
    control_row("ctrl-query", "query", 16, at_least(15)),
    Row(
        "ctrl-floor",
        "control ours --route heartbeat --connections 64",
        "control redis --route heartbeat --connections 64",
        RATE,
        at_least(0.6),
        AOF_OFF,
    ),
    Row("ctrl-event-p50", "control ours --route event", None, P50, at_most(1000), AOF_OFF),
    Row("ctrl-event-p99", "control ours --route event", None, P99, at_most(5000), AOF_OFF),
    Row("ctrl-reap", f"control ours {CRASH}", None, LATE, at_most(1), AOF_OFF),
    Row("ctrl-reap-slowest", f"control ours {CRASH}", None, SLOWEST, at_most(10000), AOF_OFF),
    Row("ctrl-10k-cpu", f"control ours {HOLD}", None, SERVER_CPU, at_most(30), AOF_OFF),
    Row("ctrl-10k-memory", f"control ours {HOLD}", None, SERVER_MEMORY, at_most(20), AOF_OFF),
    *map(foreign_row, FOREIGN),
    # Topologies: simulated agents, agents of this host, and one file of many links.
    Row("ctrl-mesh-64", "cluster mesh --agents 64", None, CONNECTED, at_most(2), AOF_OFF),
    Row("ctrl-mesh-real-24", "cluster real --agents 24", None, CONNECTED, at_most(5), AOF_OFF),
    Row("ctrl-apply", "cluster apply --links 10000", None, APPLIED, at_most(100), AOF_OFF),
    Row("ctrl-wanted-10k-redis", "cluster star --agents 9999", None, IN_REDIS, at_most(50), AOF_OFF),
    Row("ctrl-wanted-10k-told", "cluster star --agents 9999", None, TOLD, at_most(1), AOF_OFF),
    # A store of pages, whose owner and reader find each other through nanoctrl.
    page_row("page-get-shm", f"get {PAGES_128K} --verify never", MEMCPY_128K, BANDWIDTH, at_least(0.9)),
    page_row("page-get-shm-verify", f"get {PAGES_128K}", MEMCPY_128K, BANDWIDTH, at_least(0.45)),
    page_row("page-get-tcp", f"get {PAGES_128K} --verify never {TCP}", TCP_READ_128K, BANDWIDTH, at_least(0.9)),
    page_rdma_row("page-get-rdma", 131072, 32),
    page_row("page-exists-shm", f"exists {KEYS}", None, RATE, at_least(5e6)),
    page_row("page-exists-tcp", f"exists {KEYS} {TCP}", None, RATE, at_least(2e6)),
    page_row("page-put", f"put {PAGES_128K}", f"pages get {PAGES_128K}", BANDWIDTH, at_least(0.7)),
    *page_peer_rows("peercache", f"peercache {PAGES_128K}"),
    *page_peer_rows("mooncake", "mooncake-store --block 131072 --batch 32"),
    page_row("page-torn", "judge --page-size 16384 --batch 32 --threads 4 --round 20s", None, WRONG, at_most(0)),
    # Names cost next to nothing beside handles.
    Row(
        "agent-target-read",
        "agents --transport shm --block 4KiB",
        "agents --transport shm --block 4KiB --by-handles",
        P50,
        at_most(1.1),
        "warm",
    ),
    # One batch of 15 000 pieces.
    read_row("post-15000", SCATTERED, f"memcpy {SCATTERED}", P50, at_most(1.2)),
    Row("post-15000-tcp", f"slime-measure read {TCP} {SCATTERED}", None, POST, at_most(1000), "cold"),
]
