__global__ void __launch_bounds__(128) tile(const float* in, float* out, unsigned n) {
    __shared__ float4 tile[32];
    float sum = 0;
    for (unsigned i = 0; i < n; i++) {
        ((float*)tile)[threadIdx.x] = in[128 * i + threadIdx.x];
        __syncthreads();
        sum = exp2(sum + tile[0].x * tile[0].y + tile[0].z * tile[0].w);
    }
    out[threadIdx.x] = sum;
}
