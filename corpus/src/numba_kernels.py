"""Kernels for numba-cuda: an escape-time fractal, a sum in shared memory, an atomic histogram."""

from numba import cuda, float32, uint32


def fractal(out, width, limit):
    i = cuda.grid(1)
    if i < out.size:
        z, c = 0j, complex(i % width / width * 3 - 2, i // width / width * 2 - 1)
        steps = 0
        while abs(z) < 2 and steps < limit:
            z = z * z + c
            steps += 1
        out[i] = steps


def total(x, out):
    parts = cuda.shared.array(256, float32)
    t = cuda.threadIdx.x
    parts[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    half = 128
    while half > 0:
        if t < half:
            parts[t] += parts[t + half]
        cuda.syncthreads()
        half //= 2
    if t == 0:
        cuda.atomic.add(out, 0, parts[0])


def histogram(keys, bins):
    i = cuda.grid(1)
    if i < keys.size:
        cuda.atomic.add(bins, keys[i] % uint32(bins.size), 1)


SIGNATURES = {"fractal": "void(uint32[:], uint32, uint32)", "total": "void(float32[:], float32[:])",
              "histogram": "void(uint32[:], uint32[:])"}


def main(kernel, arch, out, *options):
    chosen = {"debug": {"debug": True, "opt": False}, "lineinfo": {"lineinfo": True}}
    options = {name: value for option in options for name, value in chosen[option].items()}
    ptx, _ = cuda.compile_ptx(globals()[kernel], SIGNATURES[kernel], cc=divmod(int(arch), 10), **options)
    with open(out, "w") as file:
        file.write(ptx)


if __name__ == "__main__":
    import sys

    main(*sys.argv[1:])
