// Counts bytes in dynamic shared memory, then merges.
extern __shared__ unsigned bins[];

extern "C" __global__ void histogram(const unsigned char* data, size_t n, unsigned* out, int count)
{
    for (int i = threadIdx.x; i < count; i += blockDim.x)
        bins[i] = 0;
    __syncthreads();
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
        atomicAdd(&bins[data[i] % count], 1u);
    __syncthreads();
    for (int i = threadIdx.x; i < count; i += blockDim.x)
        if (bins[i] != 0)
            atomicAdd(&out[i], bins[i]);
}
