"""Compiles a CUDA C++ file with NVRTC: `nvrtc.py LIBRARY SOURCE OUT OPTION...`. Needs no GPU."""

import ctypes
import pathlib
import sys


def check(result):
    if result != 0:
        raise SystemExit(f"NVRTC error {result}")


def main(library, source, out, *options):
    nvrtc = ctypes.CDLL(library)
    text = pathlib.Path(source).read_bytes()
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    check(nvrtc.nvrtcCreateProgram(ctypes.byref(program), text, source.encode(), 0, None, None))
    words = (ctypes.c_char_p * len(options))(*(o.encode() for o in options))
    result = nvrtc.nvrtcCompileProgram(program, len(options), words)
    check(nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size)))
    log = ctypes.create_string_buffer(size.value)
    check(nvrtc.nvrtcGetProgramLog(program, log))
    print(log.value.decode(), end="", file=sys.stderr)
    check(result)
    check(nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size)))
    ptx = ctypes.create_string_buffer(size.value)
    check(nvrtc.nvrtcGetPTX(program, ptx))
    pathlib.Path(out).write_bytes(ptx.raw.rstrip(b"\0"))


main(*sys.argv[1:])
