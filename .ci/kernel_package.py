"""Turns wheels of `ptx_kernels` into variants that Hugging Face's `kernels` loads, and checks them with its own tools."""

import json
import platform
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import kernel_abi_check
from kernels._rust import Digest, DigestAlgorithm, Metadata
from kernels.variants import parse_variant

NAME = "ptx-kernels"
# `kernels` takes a variant for the same major version of CUDA and an older or equal minor one. The library needs a driver alone.
CUDA = ["cu120", "cu130"]
TVM_FFI = "tvm-ffi01"
PYTHON_ABI, MANYLINUX = "3.10", "manylinux_2_28"


def main() -> None:
    out = Path(sys.argv[1])
    for wheel in map(Path, sys.argv[2:]):
        version, machine = re.search(r"-(\d+)\.\d+\.\d+-.*_(x86_64|aarch64)\.whl$", wheel.name).groups()
        for cuda in CUDA:
            variant = f"{TVM_FFI}-{cuda}-{machine}-linux"
            assert parse_variant(variant).variant_str == variant
            folder = out / "build" / variant
            unpack(wheel, folder)
            write_metadata(folder, int(version))
            check(folder)
            print(f"{folder}: {sum(file.stat().st_size for file in folder.rglob('*') if file.is_file()) / 1e6:.1f} MB")
        if machine == platform.machine():
            load(folder)


def unpack(wheel: Path, folder: Path) -> None:
    """The package's files, which import each other relatively, at the root of the variant."""
    prefix = NAME.replace("-", "_") + "/"
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.startswith(prefix) and not name.endswith("/"):
                path = folder / name.removeprefix(prefix)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(archive.read(name))


def write_metadata(folder: Path, version: int) -> None:
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    digest = Digest.hash_variant(DigestAlgorithm.SHA256, folder)
    metadata = {
        "name": NAME,
        "id": f"_{NAME.replace('-', '_')}_cuda_{commit[:7]}",
        "version": version,
        "license": "MIT OR Apache-2.0",
        "python-depends": ["tvm-ffi"],
        "backend": {"type": "cuda"},
        "digest": {"algorithm": "sha256", "files": digest.files},
    }
    (folder / "metadata.json").write_text(json.dumps(metadata, indent=2, sort_keys=True) + "\n")


def check(folder: Path) -> None:
    metadata = Metadata.read_from_file(folder / "metadata.json")
    metadata.digest.validate(Digest.hash_variant(DigestAlgorithm.SHA256, folder))
    for library in folder.rglob("*.so"):
        file = kernel_abi_check.ObjectFile(library)
        wrong = file.check_python_abi(PYTHON_ABI) + file.check_manylinux(MANYLINUX)
        assert not wrong, f"{library}: {wrong}"
        print(f"{library.name}: Python {PYTHON_ABI} and {MANYLINUX}")


def load(variant: Path) -> None:
    """As `kernels.get_local_kernel` imports it, by its path and under another name; then an operation on the CPU device."""
    code = """
import sys
from pathlib import Path
import numpy
from kernels.importer import _import_from_path
ops = _import_from_path(Path(sys.argv[1]), {})
x = numpy.ones((2, 64), dtype=numpy.float32)
numpy.testing.assert_allclose(ops.rms_norm(x, numpy.ones(64, dtype=numpy.float32)), x, rtol=1e-5)
print(f"loaded as {ops.__name__}")
"""
    subprocess.run([sys.executable, "-c", code, str(variant)], check=True, cwd=variant.parent)


main()
