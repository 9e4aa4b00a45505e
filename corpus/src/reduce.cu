// Sums by shuffles, by votes, and by the reduction instruction of sm_80.
template <typename T>
__device__ T warp_sum(T value)
{
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, offset);
    return value;
}

template <typename T>
__device__ void block_sum(const T* in, T* out, int n)
{
    __shared__ T parts[32];
    T sum = T(0);
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += in[i];
    sum = warp_sum(sum);
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    if (lane == 0)
        parts[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        sum = lane < (blockDim.x + 31) / 32 ? parts[lane] : T(0);
        sum = warp_sum(sum);
        if (lane == 0)
            atomicAdd(out, sum);
    }
}

extern "C" __global__ void sum_f32(const float* in, float* out, int n) { block_sum(in, out, n); }
extern "C" __global__ void sum_f64(const double* in, double* out, int n) { block_sum(in, out, n); }

extern "C" __global__ void votes(const int* in, unsigned* out)
{
    int v = in[threadIdx.x];
    unsigned ballot = __ballot_sync(__activemask(), v > 0);
    bool all = __all_sync(0xffffffffu, v != 3), any = __any_sync(0xffffffffu, v == 7);
    unsigned same = __match_any_sync(0xffffffffu, v);
    unsigned up = __shfl_up_sync(0xffffffffu, ballot, 1), down = __shfl_down_sync(0xffffffffu, same, 2);
    out[threadIdx.x] = __popc(ballot) + (all ? 1 : 0) + (any ? 2 : 0) + __ffs(same) + up + __clz(down) + __brev(up);
#if __CUDA_ARCH__ >= 800
    out[threadIdx.x] += __reduce_add_sync(0xffffffffu, v) + __reduce_xor_sync(0xffffffffu, ballot);
#endif
}
