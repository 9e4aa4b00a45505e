#!/usr/bin/env python3
"""Counters of Nsight Compute for the kernels that `PTX_RECORD=DIR cargo test -p ptx-tests --test interp counters` writes.

record.py assemble DIR            machine code of every kernel by ptxas ($PTXAS), which may be on another machine
record.py DIR > h200.txt          runs DIR's launches under ncu on this machine's GPU, and prints the table
record.py launch DIR              the launches alone: what runs under ncu
"""
import csv
import ctypes
import json
import os
import subprocess
import sys

L1 = "l1tex__"
# The profiler's counters, and the metrics that count the same.
COLUMNS = [
    ("shared_load_wavefronts", L1 + "data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"),
    ("shared_store_wavefronts", L1 + "data_pipe_lsu_wavefronts_mem_shared_op_st.sum"),
    ("shared_atomic_wavefronts", L1 + "data_pipe_lsu_wavefronts_mem_shared_op_atom.sum"),
    ("async_copy_wavefronts", "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldgsts_cache_access.sum"),
    ("global_load_requests", L1 + "t_requests_pipe_lsu_mem_global_op_ld.sum"),
    ("global_load_sectors", L1 + "t_sectors_pipe_lsu_mem_global_op_ld.sum"),
    ("global_store_requests", L1 + "t_requests_pipe_lsu_mem_global_op_st.sum"),
    ("global_store_sectors", L1 + "t_sectors_pipe_lsu_mem_global_op_st.sum"),
    ("global_atomic_requests", L1 + "t_requests_pipe_lsu_mem_global_op_atom.sum"),
    ("global_atomic_sectors", L1 + "t_sectors_pipe_lsu_mem_global_op_atom.sum"),
    ("global_reduction_requests", L1 + "t_requests_pipe_lsu_mem_global_op_red.sum"),
    ("global_reduction_sectors", L1 + "t_sectors_pipe_lsu_mem_global_op_red.sum"),
    ("local_load_sectors", L1 + "t_sectors_pipe_lsu_mem_local_op_ld.sum"),
    ("local_store_sectors", L1 + "t_sectors_pipe_lsu_mem_local_op_st.sum"),
    ("l2_read_sectors", L1 + "m_xbar2l1tex_read_sectors.sum"),
    ("l2_write_sectors", "lts__t_sectors_srcunit_tex_op_write.sum"),
    ("dram_read_bytes", "dram__bytes_read.sum"),
    ("registers", "launch__registers_per_thread"),
    ("warps", "sm__maximum_warps_per_active_cycle_pct"),
]
BUFFER = 4 << 20
OFFSETS = 512


def cases(folder):
    with open(f"{folder}/cases.json") as file:
        return json.load(file)


def assemble(folder):
    for text in sorted({case["text"] for case in cases(folder)}):
        ptxas = os.environ.get("PTXAS", "ptxas")
        subprocess.run([ptxas, "-arch", "sm_90", f"{folder}/{text}.ptx", "-o", f"{folder}/{text}.cubin"], check=True)


def launch(folder):
    cuda = ctypes.CDLL("libcuda.so.1")

    def call(name, *arguments):
        code = getattr(cuda, name)(*arguments)
        if code:
            sys.exit(f"{name}: CUDA error {code}")

    device, context = ctypes.c_int(), ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuCtxCreate_v2", ctypes.byref(context), 0, device)

    def upload(address, data):
        call("cuMemcpyHtoD_v2", address, data, ctypes.c_size_t(len(data)))

    buffers = [ctypes.c_uint64() for _ in range(3)]
    for buffer, size in zip(buffers, [OFFSETS, BUFFER, BUFFER]):
        call("cuMemAlloc_v2", ctypes.byref(buffer), ctypes.c_size_t(size))
        upload(buffer, bytes(size))
    with open(f"{folder}/tables.bin", "rb") as file:
        tables = file.read()
    for case in cases(folder):
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        with open(f"{folder}/{case['text']}.cubin", "rb") as file:
            call("cuModuleLoadData", ctypes.byref(module), file.read())
        call("cuModuleGetFunction", ctypes.byref(function), module, b"k")
        upload(buffers[0], tables[case["table"] : case["table"] + OFFSETS])
        call("cuFuncSetAttribute", function, 8, case["dynamic"])
        arguments = [*buffers, ctypes.c_uint32(case["mask"])]
        pointers = (ctypes.c_void_p * 4)(*[ctypes.addressof(argument) for argument in arguments])
        call("cuLaunchKernel", function, case["grid"], 1, 1, case["block"], 1, 1, case["dynamic"], None, pointers, None)
        call("cuCtxSynchronize")


def record(folder):
    metrics = ",".join(metric for _, metric in COLUMNS)
    options = "--csv --page raw --print-units base --print-fp --cache-control all --clock-control none".split()
    command = ["ncu", *options, "--metrics", metrics, sys.executable, __file__, "launch", folder]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = list(csv.DictReader(line for line in printed.splitlines() if line.startswith('"')))
    print("name", *[column for column, _ in COLUMNS])
    for case, row in zip(cases(folder), [row for row in rows if row["ID"]]):
        values = [float(row[metric].replace(",", "") or 0) for _, metric in COLUMNS]
        values[-1] *= 64 / 100
        print(case["name"], *["." if value == 0 else round(value) for value in values])


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["assemble", folder]:
            assemble(folder)
        case ["launch", folder]:
            launch(folder)
        case [folder]:
            record(folder)
        case _:
            sys.exit(__doc__)
