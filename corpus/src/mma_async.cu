// A pipeline of cp.async stages that feeds ldmatrix and mma.sync, all by inline assembly.
#include <cuda_fp16.h>

__device__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

__device__ void copy16(void* to, const void* from, bool valid)
{
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(valid ? 16 : 0));
}

__device__ void ldmatrix4(unsigned (&r)[4], const void* p)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(p)));
}

__device__ void ldmatrix2t(unsigned (&r)[2], const void* p)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(shared_address(p)));
}

__device__ void mma(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

constexpr int kStages = 3;

extern "C" __global__ void __launch_bounds__(32) mma_async(const half* a, const half* b, float* c, int k, int steps)
{
    __shared__ __align__(128) half sa[kStages][16][16];
    __shared__ __align__(128) half sb[kStages][16][8];
    int lane = threadIdx.x;
    auto fetch = [&](int step) {
        int s = step % kStages;
        copy16(&sa[s][lane / 2][lane % 2 * 8], a + (lane / 2) * k + step * 16 + lane % 2 * 8, step < steps);
        if (lane < 16)
            copy16(&sb[s][lane][0], b + (step * 16 + lane) * 8, step < steps);
        asm volatile("cp.async.commit_group;");
    };
    for (int s = 0; s < kStages - 1; s++)
        fetch(s);
    float acc[4] = {};
    for (int step = 0; step < steps; step++) {
        asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 2));
        __syncthreads();
        unsigned fa[4], fb[2];
        ldmatrix4(fa, &sa[step % kStages][lane % 16][lane / 16 * 8]);
        ldmatrix2t(fb, &sb[step % kStages][lane % 16][0]);
        mma(acc, fa, fb);
        fetch(step + kStages - 1);
    }
    asm volatile("cp.async.wait_all;");
    float2* out = reinterpret_cast<float2*>(c + lane / 4 * 8 + lane % 4 * 2);
    out[0] = make_float2(acc[0], acc[1]);
    out[32] = make_float2(acc[2], acc[3]);
}
