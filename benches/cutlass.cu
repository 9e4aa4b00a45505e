// CUTLASS' products for sm_80, bf16 with f32 sums, both operands K-major: the rival of `examples/ampere/gemm.rs`.
//
//     pip download --no-deps nvidia-cutlass && unzip nvidia_cutlass-*.whl 'cutlass_library/source/include/*'
//     nvcc -std=c++20 -O3 --expt-relaxed-constexpr -gencode=arch=compute_90,code=sm_90 \
//         -I cutlass_library/source/include benches/cutlass.cu -o cutlass
//     ./cutlass 4096 50        # N of an N x N x N product, launches of a turn

#include <cutlass/gemm/device/gemm.h>
#include <cutlass/gemm/threadblock/threadblock_swizzle.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

using Element = cutlass::bfloat16_t;
using Row = cutlass::layout::RowMajor;
using Column = cutlass::layout::ColumnMajor;

template <int BM, int BN, int BK, int WM, int WN, int STAGES>
using Product = cutlass::gemm::device::Gemm<
    Element, Row, Element, Column, Element, Row, float, cutlass::arch::OpClassTensorOp, cutlass::arch::Sm80,
    cutlass::gemm::GemmShape<BM, BN, BK>, cutlass::gemm::GemmShape<WM, WN, BK>, cutlass::gemm::GemmShape<16, 8, 16>,
    cutlass::epilogue::thread::LinearCombination<Element, 8, float, float>,
    cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<8>, STAGES>;

__device__ float uniform(unsigned x) {
    x ^= x >> 16;
    x *= 0x85ebca6b;
    x ^= x >> 13;
    x *= 0xc2b2ae35;
    x ^= x >> 16;
    return (x >> 8) * 5.9604645e-8f + 2.98e-8f;
}

// Normally distributed: zeros would take less power, and run faster.
__global__ void fill(Element* p, size_t n, unsigned seed) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
        p[i] = Element(sqrtf(-2.f * logf(uniform(2 * i ^ seed))) * cosf(6.2831853f * uniform((2 * i + 1) ^ seed)));
}

struct Contestant {
    std::string name;
    std::function<bool()> launch;
    std::vector<float> times;
};

template <int BM, int BN, int BK, int WM, int WN, int STAGES>
Contestant contestant(int n, Element* a, Element* b, Element* c) {
    using P = Product<BM, BN, BK, WM, WN, STAGES>;
    char name[99];
    snprintf(name, sizeof name, "%dx%dx%d warp %dx%d stages %d", BM, BN, BK, WM, WN, STAGES);
    auto launch = [=] {
        static P product;
        typename P::Arguments arguments({n, n, n}, {a, n}, {b, n}, {c, n}, {c, n}, {1.f, 0.f});
        return product(arguments) == cutlass::Status::kSuccess;
    };
    return {name, launch, {}};
}

int main(int argc, char** argv) {
    int n = argc > 1 ? atoi(argv[1]) : 4096, batch = argc > 2 ? atoi(argv[2]) : 50;
    size_t length = (size_t)n * n;
    Element *a, *b, *c;
    cudaMalloc(&a, length * 2);
    cudaMalloc(&b, length * 2);
    cudaMalloc(&c, length * 2);
    fill<<<512, 256>>>(a, length, 1);
    fill<<<512, 256>>>(b, length, 2);
    std::vector<Contestant> all{
        contestant<128, 256, 32, 64, 64, 3>(n, a, b, c), contestant<256, 128, 32, 64, 64, 3>(n, a, b, c),
        contestant<128, 256, 64, 64, 64, 3>(n, a, b, c), contestant<256, 128, 64, 64, 64, 3>(n, a, b, c),
        contestant<128, 256, 64, 64, 64, 4>(n, a, b, c), contestant<128, 128, 32, 64, 64, 4>(n, a, b, c),
        contestant<128, 128, 32, 64, 64, 5>(n, a, b, c), contestant<128, 128, 64, 64, 64, 3>(n, a, b, c),
        contestant<128, 128, 64, 64, 64, 4>(n, a, b, c)};
    std::erase_if(all, [](auto& one) { return !one.launch(); });
    cudaEvent_t begin, end;
    cudaEventCreate(&begin);
    cudaEventCreate(&end);
    for (int turn = 0; turn < 10; turn++)
        for (auto& one : all) {
            float milliseconds;
            cudaEventRecord(begin);
            for (int i = 0; i < batch; i++) one.launch();
            cudaEventRecord(end);
            cudaEventSynchronize(end);
            cudaEventElapsedTime(&milliseconds, begin, end);
            if (turn) one.times.push_back(milliseconds / batch);
        }
    for (auto& one : all) {
        std::sort(one.times.begin(), one.times.end());
        float time = one.times[one.times.size() / 2];
        printf("%d %-32s %9.1f us %7.1f TFLOP/s\n", n, one.name.c_str(), time * 1e3, 2.0 * n * n * n / time / 1e9);
    }
    return cudaGetLastError() != cudaSuccess;
}
