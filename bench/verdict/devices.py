# SPDX-License-Identifier: Apache-2.0
"""The RDMA devices that rows are measured between."""

import glob
import os

ROOT = "/sys/class/infiniband"


def active(root=ROOT):
    """Those whose first port is up, by name."""
    names = []
    for path in sorted(glob.glob(os.path.join(root, "*", "ports", "1", "state"))):
        with open(path, encoding="ascii") as f:
            if "ACTIVE" in f.read():
                names.append(path.split(os.sep)[-4])
    return names


def pair_of(named, there):
    """The client's and the server's: those that are named, else the first two; one is both. None without any."""
    names = named.split(",") if named else there[:2]
    return (names[0], names[-1]) if names else None
