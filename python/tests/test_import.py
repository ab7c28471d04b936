# SPDX-License-Identifier: Apache-2.0
"""The package on a host where something is missing."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import libslime
import pytest


@pytest.mark.parametrize("library,package", [(b"libibverbs.so.1", "libibverbs1"), (b"libcrypto.so.3", "libssl3")])
def test_import__without_a_library_names_its_package(tmp_path, library, package):
    folder = Path(libslime.__file__).parent
    shutil.copytree(folder, tmp_path / "libslime")
    if (folder.parent / "libslime.libs").exists():
        shutil.copytree(folder.parent / "libslime.libs", tmp_path / "libslime.libs")
    (module,) = (tmp_path / "libslime").glob("_libslime*.so")
    bytes_of_it = module.read_bytes()
    assert library in bytes_of_it
    module.unlink()
    # A version that no host has.
    module.write_bytes(bytes_of_it.replace(library, library[:-1] + b"0"))
    run = subprocess.run(
        [sys.executable, "-c", "import libslime"], env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, cwd=tmp_path
    )
    assert run.returncode == 1
    last = run.stderr.splitlines()[-1]
    assert last.startswith("ImportError: ") and f"apt-get install {package}" in last, run.stderr
