# SPDX-License-Identifier: Apache-2.0
"""The RDMA devices that rows are measured between."""

import glob
import os


def active(root):
    """Those whose first port is up, by name."""
    names = []
    for path in sorted(glob.glob(os.path.join(root, "*", "ports", "1", "state"))):
        with open(path, encoding="ascii") as f:
            if "ACTIVE" in f.read():
                names.append(path.split(os.sep)[-4])
    return names


def pairs_of(named, there):
    """Pairs of a client's and a server's: those that are named, else the first two of each; one alone is both."""
    names = named.split(",") if named else there[:4]
    return [(names[0], names[0])] if len(names) == 1 else list(zip(names[::2], names[1::2]))


def is_adapter(name, root):
    """soft-RoCE shows the interface that it lies on in a file of its own; what has no bus is no adapter either."""
    path = os.path.join(root, name)
    return os.path.exists(os.path.join(path, "device")) and not os.path.exists(os.path.join(path, "parent"))


def are_adapters(pairs, root):
    return bool(pairs) and all(is_adapter(name, root) for pair in pairs for name in pair)
