#!/usr/bin/env python3
"""Makes the PTX of this folder from the sources of this folder, and checks the manifest. See README.md.

    make.py tools DIR        installs the compilers that are pip packages, in a folder
    make.py build DIR [NAME] makes the files whose name contains NAME (or all), with these compilers; writes the manifest
    make.py verify           holds the files against the manifest, and against ptxas where there is one
"""

import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass

HERE = pathlib.Path(__file__).resolve().parent
MANIFEST = HERE / "manifest.toml"
LICENCE = "MIT OR Apache-2.0"

PACKAGES = [
    "nvidia-cuda-nvcc==13.5.37", "nvidia-cuda-crt==13.5.37", "nvidia-nvvm==13.5.37", "nvidia-cuda-runtime==13.5.37",
    "nvidia-cuda-cccl==13.3.5.0.6", "nvidia-cuda-nvrtc==13.5.37", "nvidia-cuda-nvrtc-cu12==12.9.86",
    "triton==3.9.0", "numba-cuda==0.30.4", "numba==0.68.1", "numpy",
]

# Compilers write the paths that they see into debug information, so all of them see the same ones: a private mount.
ROOT = pathlib.Path("/mnt")
TOOLS = ROOT / "tools"
CUDA = TOOLS / "nvidia/cu13"
NVRTC = {"13.5": CUDA / "lib/libnvrtc.so.13", "12.9": TOOLS / "nvidia/cuda_nvrtc/lib/libnvrtc.so.12"}


@dataclass
class Recipe:
    """One file: what it is made from, with what, and how; no command for what is written by hand."""

    file: str
    source: str
    producer: str
    command: str = ""


def nvcc(source, arch, *options, tag=""):
    file = f"nvcc-13.5/{source}.{arch}{tag}.ptx"
    words = ["nvcc", "-ptx", f"-arch={arch}", *options, f"{source}.cu", "-o", f"../ptx/{file}"]
    return Recipe(file, f"src/{source}.cu", "nvcc 13.5.37", " ".join(words))


def nvrtc(version, source, arch, *options, tag=""):
    file = f"nvrtc-{version}/{source}.{arch}{tag}.ptx"
    full = {"13.5": "13.5.37", "12.9": "12.9.86"}[version]
    options = [f"--gpu-architecture={arch}", *options]
    words = ["python3 ../nvrtc.py", str(NVRTC[version]), f"{source}.cu", f"../ptx/{file}", *options]
    return Recipe(file, f"src/{source}.cu", f"nvrtc {full}", " ".join(words))


def triton(kernel, arch):
    file = f"triton-3.9/{kernel}.sm_{arch}.ptx"
    command = f"python3 triton_kernels.py {kernel} {arch} ../ptx/{file}"
    return Recipe(file, "src/triton_kernels.py", "triton 3.9.0", command)


def numba(kernel, arch, *options):
    file = ".".join([f"numba-cuda-0.30/{kernel}.sm_{arch}", *options, "ptx"])
    words = ["python3 numba_kernels.py", kernel, arch, f"../ptx/{file}", *options]
    return Recipe(file, "src/numba_kernels.py", "numba-cuda 0.30.4", " ".join(words))


def clang(arch, *options, tag=""):
    file = f"clang-14/norms.{arch}{tag}.ptx"
    words = ["clang-14 -x cuda --cuda-device-only -nocudainc -nocudalib", f"--cuda-gpu-arch={arch}",
             "-Xclang -target-feature -Xclang +ptx75 -fno-math-errno -O2 -S", *options, "norms.clang.cu", "-o", f"../ptx/{file}"]
    return Recipe(file, "src/norms.clang.cu", "clang 14.0.6", " ".join(words))


def rustc(arch):
    file = f"rustc-1.97/scale.{arch}.ptx"
    command = f"rustc +nightly --target nvptx64-nvidia-cuda -O --emit asm -C target-cpu={arch} scale.rs -o ../ptx/{file}"
    return Recipe(file, "src/scale.rs", "rustc 1.97.0-nightly (e50aa6fba 2026-05-19)", command)


def by_hand():
    files = sorted(path.relative_to(HERE / "ptx").as_posix() for folder in ("hand", "refused")
                   for path in (HERE / "ptx" / folder).glob("*.ptx"))
    return [Recipe(file, f"ptx/{file}", "hand") for file in files]


def recipes():
    lines, debug = ("-lineinfo",), ("-G",)
    return [
        nvcc("saxpy", "sm_75"), nvcc("saxpy", "sm_75", *lines, tag=".lineinfo"), nvcc("saxpy", "sm_90", *debug, tag=".debug"),
        nvcc("reduce", "sm_80"), nvcc("reduce", "sm_75", *lines, tag=".lineinfo"), nvcc("transpose", "sm_86"),
        nvcc("histogram", "sm_90"), nvcc("wmma_gemm", "sm_80"), nvcc("mma_async", "sm_80"),
        nvcc("mma_async", "sm_120a", *lines, tag=".lineinfo"), nvcc("printf", "sm_75"),
        nvcc("printf", "sm_100", *lines, tag=".lineinfo"), nvcc("calls", "sm_75"),
        nvcc("calls", "sm_89", "-rdc=true", tag=".rdc"), nvcc("calls", "sm_90", *debug, tag=".debug"),
        nvcc("tables", "sm_75"), nvcc("tables", "sm_120", *debug, tag=".debug"), nvcc("textures", "sm_75"),
        nvcc("textures", "sm_110"), nvcc("narrow", "sm_89"), nvcc("narrow", "sm_100a", "-use_fast_math", tag=".fast"),
        nvcc("atomics", "sm_75"), nvcc("atomics", "sm_90"), nvcc("control", "sm_75"), nvcc("control", "sm_75", *debug, tag=".debug"),
        nvcc("barriers", "sm_75"), nvcc("barriers", "sm_90"), nvcc("hopper", "sm_90a"),
        nvcc("hopper", "sm_90a", *lines, tag=".lineinfo"), nvcc("blackwell", "sm_100a"), nvcc("blackwell", "sm_103f"),
        nvrtc("13.5", "saxpy", "compute_75", *lines, tag=".lineinfo"), nvrtc("13.5", "reduce", "compute_80"),
        nvrtc("13.5", "transpose", "compute_90"), nvrtc("13.5", "control", "compute_100", *debug, tag=".debug"),
        nvrtc("13.5", "calls", "compute_90"), nvrtc("13.5", "histogram", "compute_121a"),
        nvrtc("13.5", "narrow", "compute_90", f"--include-path={CUDA}/include"), nvrtc("13.5", "blackwell", "compute_100f"),
        nvrtc("12.9", "saxpy", "compute_52", *lines, tag=".lineinfo"), nvrtc("12.9", "reduce", "compute_70"),
        nvrtc("12.9", "transpose", "compute_50"), nvrtc("12.9", "calls", "compute_60"),
        nvrtc("12.9", "control", "compute_70", *debug, tag=".debug"), nvrtc("12.9", "barriers", "compute_90"),
        nvrtc("12.9", "atomics", "compute_72"), nvrtc("12.9", "textures", "compute_61"), nvrtc("12.9", "blackwell", "compute_100a"),
        triton("softmax", "80"), triton("softmax", "100"), triton("matmul", "75"), triton("matmul", "80"),
        triton("matmul", "90"), triton("matmul", "100"), triton("dropout", "90"),
        numba("fractal", "75"), numba("fractal", "90", "lineinfo"), numba("total", "80"), numba("total", "80", "debug"),
        numba("histogram", "90"),
        clang("sm_70"), clang("sm_80", "-g", tag=".debug"), rustc("sm_80"), *by_hand(),
    ]


def install(folder):
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", folder, *PACKAGES]
    subprocess.run(command, check=True)


def build(folder, chosen=""):
    """Goes on in a mount namespace of its own, where the tools and this folder lie at fixed places."""
    mounts = f"""mount -t tmpfs none {ROOT} && mkdir {TOOLS} {ROOT}/corpus && mount --bind '{pathlib.Path(folder).resolve()}' {TOOLS} &&
        mount --bind '{HERE}' {ROOT}/corpus && cd {ROOT}/corpus && exec '{sys.executable}' make.py inside '{chosen}'"""
    subprocess.run(["unshare", "--map-root-user", "--mount", "sh", "-c", mounts], check=True)


def inside(chosen=""):
    wanted = recipes()
    with tempfile.TemporaryDirectory() as scratch:
        path = f"{pathlib.Path(sys.executable).parent}:{CUDA}/bin:{os.environ['PATH']}"
        site = pathlib.Path(scratch, "sitecustomize.py")
        site.write_text(f"import site; site.addsitedir('{TOOLS}')\n")
        extra = {"PATH": path, "PYTHONPATH": scratch, "PYTHONDONTWRITEBYTECODE": "1", "TRITON_CACHE_DIR": scratch,
                 "LD_LIBRARY_PATH": f"{CUDA}/lib", "TMPDIR": scratch}
        for recipe in wanted:
            if recipe.command and chosen in recipe.file:
                make(recipe, os.environ | extra)
    write_manifest(wanted)


def make(recipe, env):
    out = HERE / "ptx" / recipe.file
    out.parent.mkdir(parents=True, exist_ok=True)
    run = subprocess.run(recipe.command, shell=True, cwd=HERE / "src", env=env, capture_output=True, text=True)
    if run.returncode != 0:
        raise SystemExit(f"{recipe.command}\n{run.stdout}{run.stderr}")


def write_manifest(wanted):
    lines = ["# Written by make.py. What `ptxas` says is the verdict of ptxas 13.5.37, assembling for the file's target, or for",
             "# sm_75 where that is older: this ptxas does not assemble for those any more."]
    for recipe in wanted:
        lines += ["", "[[file]]", *(f"{key} = {quoted(value)}" for key, value in entry(recipe).items())]
    MANIFEST.write_text("\n".join(lines) + "\n")


def quoted(value):
    return str(value) if isinstance(value, int) else '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def entry(recipe):
    text = (HERE / "ptx" / recipe.file).read_bytes()
    target, version = header(text)
    accepted, message = verdict(recipe.file, target)
    values = {"path": f"ptx/{recipe.file}", "source": recipe.source, "producer": recipe.producer, "command": recipe.command,
              "target": target, "ptx": version, "ptxas": "accepted" if accepted else "refused", "message": message,
              "licence": LICENCE, "bytes": len(text), "sha256": hashlib.sha256(text).hexdigest()}
    return {key: value for key, value in values.items() if value != ""}


def header(text):
    text = re.sub(rb"/\*.*?\*/|//[^\n]*", b"", text, flags=re.S)
    target = re.search(rb"\.target\s+(\w+)", text)[1].decode()
    version = re.search(rb"\.version\s+([\d.]+)", text)[1].decode()
    return target, version


def ptxas():
    return shutil.which(os.environ.get("PTXAS") or "ptxas") or shutil.which("ptxas", path=str(CUDA / "bin"))


def verdict(file, target):
    """Whether ptxas takes a file, and what it says first if not."""
    number = int(re.search(r"\d+", target)[0])
    arch = target if number >= 75 else "sm_75"
    with tempfile.TemporaryDirectory() as scratch:
        command = [ptxas(), f"-arch={arch}", HERE / "ptx" / file, "-o", pathlib.Path(scratch, "out.cubin")]
        run = subprocess.run(command, capture_output=True, text=True)
    first = next((m[1] for m in re.finditer(r"(?:error|fatal)\s*: (.*)", run.stderr)), "").replace(str(HERE) + "/ptx/", "")
    return run.returncode == 0, first if run.returncode != 0 else ""


def verify():
    entries = tomllib.loads(MANIFEST.read_text())["file"]
    known = {e["path"] for e in entries}
    faults = [f"{path}: not in the manifest" for p in (HERE / "ptx").rglob("*.ptx")
              if (path := p.relative_to(HERE).as_posix()) not in known]
    for e in entries:
        faults += [f"{e['path']}: {fault}" for fault in faults_of(e)]
    print("\n".join(faults) or f"{len(entries)} files are as the manifest says")
    return bool(faults)


def faults_of(e):
    if not (HERE / e["source"]).is_file():
        yield f"{e['source']} is missing"
    text = (HERE / e["path"]).read_bytes()
    if hashlib.sha256(text).hexdigest() != e["sha256"] or len(text) != e["bytes"]:
        yield "other bytes"
    if header(text) != (e["target"], e["ptx"]):
        yield "another target or version"
    if re.search(rb"/(home|root|work|tmp|opt|Users)/", decoded(text)):
        yield "holds the path of a machine"
    if ptxas() and verdict(e["path"].removeprefix("ptx/"), e["target"])[0] != (e["ptxas"] == "accepted"):
        yield "ptxas says otherwise"


def decoded(text):
    """The text, and what its debug sections spell in numbers."""
    numbers = re.findall(rb"\b(?:0x[0-9a-f]+|\d+)\b", text)
    return text + bytes(n if (n := int(word, 0 if word[:2] == b"0x" else 10)) < 256 else 32 for word in numbers)


if __name__ == "__main__":
    commands = {"tools": install, "build": build, "inside": inside, "verify": verify}
    if len(sys.argv) < 2 or sys.argv[1] not in commands:
        raise SystemExit(__doc__)
    raise SystemExit(commands[sys.argv[1]](*sys.argv[2:]))
