// Atomics of every width and scope, fences, and the memory model of libcu++ by hand.
extern "C" __global__ void atomics(int* i, unsigned* u, unsigned long long* l, float* f, double* d, unsigned short* s)
{
    __shared__ int local;
    if (threadIdx.x == 0)
        local = 0;
    __syncthreads();
    int t = threadIdx.x;
    atomicAdd(i, t);
    atomicSub(i + 1, t);
    u[9] = atomicInc(u, 17u) + atomicDec(u + 1, 17u) + atomicExch(u + 2, 3u);
    i[3] = atomicMin(i + 3, -t) + atomicMax(&local, t) + atomicCAS(i + 4, 1, t);
    l[5] = atomicMin(l, 5ull) + atomicCAS(l + 1, 7ull, 9ull) + atomicAnd(l + 2, 0xf0ull) + atomicXor(l + 3, 1ull);
    atomicAdd(f, 1.5f);
    atomicAdd(d, 2.5);
    s[1] = atomicCAS(s, (unsigned short)1, (unsigned short)2);
    atomicAdd_block(i + 6, 1);
    atomicOr_system(u + 6, 0x10u);
    __threadfence_block();
    __threadfence();
    __threadfence_system();
    i[7] = local;
}

extern "C" __global__ void orders(int* flag, int* data)
{
    if (threadIdx.x == 0) {
        asm volatile("st.relaxed.gpu.global.s32 [%0], %1;" ::"l"(data), "r"(42) : "memory");
        asm volatile("fence.acq_rel.gpu;" ::: "memory");
        asm volatile("st.release.sys.global.s32 [%0], 1;" ::"l"(flag) : "memory");
    } else {
        int seen;
        do
            asm volatile("ld.acquire.sys.global.s32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
        while (seen == 0);
        data[1] = *(volatile int*)data + __ldg(data + 2) + __ldcs(data + 3) + __ldcg(data + 4);
        __stwt(data + 5, seen);
    }
}
