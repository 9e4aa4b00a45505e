// Named barriers, barriers with a reduction, clusters and distributed shared memory.
extern "C" __global__ void barriers(int* out)
{
    __shared__ int stage;
    int t = threadIdx.x;
    out[t] = __syncthreads_count(t & 1) + __syncthreads_and(t) + __syncthreads_or(t);
    if (t < 64)
        asm volatile("bar.sync 1, 64;" ::: "memory");
    else
        asm volatile("barrier.cta.arrive 2, 128;" ::: "memory");
    if (t == 0)
        stage = 1;
    if ((t & 31) < 16)
        __syncwarp(0xffffu);
    int some;
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.s32 p, %1, 0;\n\tbarrier.cta.red.popc.u32 %0, 3, p;\n\t}" : "=r"(some) : "r"(t) : "memory");
    out[t] += stage + some;
}

#if __CUDA_ARCH__ >= 900
extern "C" __global__ void __cluster_dims__(2, 1, 1) clusters(int* out)
{
    __shared__ int mine;
    if (threadIdx.x == 0)
        mine = blockIdx.x;
    asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
    unsigned rank, address = (unsigned)__cvta_generic_to_shared(&mine), remote;
    int theirs;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(rank ^ 1));
    asm volatile("ld.shared::cluster.s32 %0, [%1];" : "=r"(theirs) : "r"(remote));
    out[blockIdx.x * blockDim.x + threadIdx.x] = theirs;
    asm volatile("barrier.cluster.arrive.aligned;\n\tbarrier.cluster.wait.aligned;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;");
}
#endif
