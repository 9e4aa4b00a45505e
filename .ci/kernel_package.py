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
    """As `kernels.get_local_kernel` imports it, by its path and under another name; then norms, a product and attention on the CPU device, and a refusal."""
    code = """
import sys
from pathlib import Path
import numpy
from kernels.importer import _import_from_path
ops = _import_from_path(Path(sys.argv[1]), {})
random = numpy.random.default_rng(1)
x, weight = (random.standard_normal(shape, dtype=numpy.float32) for shape in [(4, 64), (64, 64)])
close = lambda found, expected: numpy.testing.assert_allclose(found, expected, rtol=1e-2, atol=1e-2)
close(ops.rms_norm(x, weight[0]), x / numpy.sqrt((x * x).mean(1, keepdims=True)) * weight[0])
close(ops.layer_norm(x, weight[0], weight[1]), (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True) * weight[0] + weight[1])
close(ops.matmul(x, weight), x @ weight)
q, k, v = random.standard_normal((3, 1, 5, 1, 16)).astype(numpy.float16)
scores = numpy.exp(q[0, :, 0].astype(numpy.float32) @ k[0, :, 0].T.astype(numpy.float32) / 4)
close(ops.attention(q, k, v)[0, :, 0], scores / scores.sum(1, keepdims=True) @ v[0, :, 0])
try:
    ops.matmul(x, weight[1:])
    raise SystemExit("a product of shapes that do not fit was not refused")
except ValueError as refusal:
    print(f"loaded as {ops.__name__}; wrong shapes: {refusal}")
"""
    subprocess.run([sys.executable, "-c", code, str(variant)], check=True, cwd=variant.parent)


main()
