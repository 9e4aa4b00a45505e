// sm_90a: a tile by TMA, an mbarrier that waits for it, and a warpgroup's matrix product, by inline assembly.
#include <cuda_bf16.h>

struct alignas(64) TensorMap {
    unsigned char opaque[128];
};

__device__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

__device__ void wait(unsigned barrier, unsigned phase)
{
    asm volatile("{\n\t"
                 ".reg .pred done;\n"
                 "again:\n\t"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n\t"
                 "@done bra.uni ready;\n\t"
                 "bra.uni again;\n"
                 "ready:\n\t"
                 "}" ::"r"(barrier), "r"(phase) : "memory");
}

__device__ void load_tile(unsigned to, const TensorMap* map, int x, int y, unsigned barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to),
                 "l"(map), "r"(x), "r"(y), "r"(barrier) : "memory");
}

__device__ unsigned long long descriptor(unsigned address)
{
    return (address & 0x3ffffull) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

extern "C" __global__ void __launch_bounds__(128) hopper(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, float* c,
                                                         int steps)
{
    __shared__ __align__(1024) __nv_bfloat16 sa[64 * 64];
    __shared__ __align__(1024) __nv_bfloat16 sb[16 * 64];
    __shared__ __align__(8) unsigned long long full;
    unsigned barrier = shared_address(&full);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier));
        asm volatile("fence.mbarrier_init.release.cluster;");
        asm volatile("prefetch.tensormap [%0];" ::"l"(&a));
    }
    __syncthreads();
    float d[8] = {};
    for (int step = 0; step < steps; step++) {
        if (threadIdx.x == 0) {
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "n"((64 + 16) * 64 * 2) : "memory");
            load_tile(shared_address(sa), &a, step * 64, blockIdx.x * 64, barrier);
            load_tile(shared_address(sb), &b, step * 64, blockIdx.y * 16, barrier);
        }
        wait(barrier, step & 1);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int k = 0; k < 4; k++)
            asm volatile("{\n\t"
                         ".reg .pred p;\n\t"
                         "setp.ne.b32 p, %10, 0;\n\t"
                         "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, p, 1, 1, 0, 0;\n\t"
                         "}"
                         : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
                         : "l"(descriptor(shared_address(sa) + k * 32)), "l"(descriptor(shared_address(sb) + k * 32)), "r"(1));
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        __syncthreads();
    }
    for (int i = 0; i < 8; i++)
        c[(blockIdx.x * 128 + threadIdx.x) * 8 + i] = d[i];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 128;" ::"l"(c), "r"(shared_address(sa)) : "memory");
        asm volatile("cp.async.bulk.commit_group;\n\tcp.async.bulk.wait_group.read 0;" ::: "memory");
        asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(barrier));
    }
}

extern "C" __global__ void __launch_bounds__(256) registers(float* x)
{
    if (threadIdx.x < 128) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        unsigned elected;
        asm volatile("{\n\t.reg .pred p;\n\telect.sync _|p, 0xffffffff;\n\tselp.u32 %0, 1, 0, p;\n\t}" : "=r"(elected));
        x[threadIdx.x] += elected;
    }
}
