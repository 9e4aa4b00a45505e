// The source of `dot.ptx`. Compiled with nvcc 13.0, whose PTX 9.0 is read by drivers from release 580 on:
//   nvcc -ptx -arch=compute_80 -O3 dot.cu -o dot.ptx
extern "C" __global__ void __launch_bounds__(256) dot(const float *a, const float *b, float *out, unsigned n) {
    __shared__ float partial[8];
    float sum = 0.0f;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += a[i] * b[i];
    for (int step = 16; step > 0; step /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x % 32 == 0)
        partial[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int warp = 1; warp < 8; ++warp)
            sum += partial[warp];
        atomicAdd(out, sum);
    }
}
