# SPDX-License-Identifier: Apache-2.0
"""An actor of Ray that returns what it was given, in a runtime of its own on this host."""

import contextlib
import os
import shutil
import tempfile

import sweep

sweep.enter_environment()
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
try:
    import ray
except ImportError as e:
    sweep.absent(f"{e}: bench/baselines/setup.sh")

STORE_BYTES = 1 << 30  # a request and a reply of the longest calls, and what was not yet collected


class Echo:
    def call(self, data):
        return data


@contextlib.contextmanager
def running():
    sweep.end_in_order()
    place = tempfile.mkdtemp(prefix="slime-ray-", dir="/tmp")  # names of sockets are short
    try:
        ray.init(
            address="local",
            num_cpus=2,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="error",
            object_store_memory=STORE_BYTES,
            _temp_dir=place,
        )
        yield ray.remote(Echo).remote()
    finally:
        ray.shutdown()
        shutil.rmtree(place, ignore_errors=True)
