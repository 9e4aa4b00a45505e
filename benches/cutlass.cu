// CUTLASS' own kernels for sm_80, as its library makes them, at one size.
#include <cutlass/gemm/device/gemm.h>
#include <cutlass/gemm/threadblock/threadblock_swizzle.h>
#include <cstdio>
#include <vector>
#include <algorithm>
#include <string>
#include <functional>
using T = cutlass::bfloat16_t; using R = cutlass::layout::RowMajor; using C = cutlass::layout::ColumnMajor;
template <int BM, int BN, int BK, int WM, int WN, int S>
using G = cutlass::gemm::device::Gemm<T, R, T, C, T, R, float, cutlass::arch::OpClassTensorOp, cutlass::arch::Sm80,
  cutlass::gemm::GemmShape<BM, BN, BK>, cutlass::gemm::GemmShape<WM, WN, BK>, cutlass::gemm::GemmShape<16, 8, 16>,
  cutlass::epilogue::thread::LinearCombination<T, 8, float, float>, cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<8>, S>;
__device__ float uni(unsigned x) { x ^= x >> 16; x *= 0x85ebca6b; x ^= x >> 13; x *= 0xc2b2ae35; x ^= x >> 16; return (x >> 8) * 5.9604645e-8f + 2.98e-8f; }
__global__ void fill(T* p, size_t n, unsigned seed) { for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
  p[i] = T(sqrtf(-2.f * logf(uni(2 * i ^ seed))) * cosf(6.2831853f * uni((2 * i + 1) ^ seed))); }
struct Run { std::string name; std::function<bool()> go; std::vector<float> t; };
template <int BM, int BN, int BK, int WM, int WN, int S> Run make(int m, int n, int k, T* a, T* b, T* c) {
  char name[99]; snprintf(name, 99, "%dx%dx%d w%dx%d s%d", BM, BN, BK, WM, WN, S);
  return {name, [=] { static G<BM, BN, BK, WM, WN, S> g; typename G<BM, BN, BK, WM, WN, S>::Arguments args({m, n, k}, {a, k}, {b, k}, {c, n}, {c, n}, {1.f, 0.f});
    return g(args) == cutlass::Status::kSuccess; }, {}};
}
int main(int argc, char** argv) {
  int N = argc > 1 ? atoi(argv[1]) : 4096; size_t len = (size_t)N * N; T *a, *b, *c;
  cudaMalloc(&a, len * 2); cudaMalloc(&b, len * 2); cudaMalloc(&c, len * 2); fill<<<512, 256>>>(a, len, 1); fill<<<512, 256>>>(b, len, 2);
  std::vector<Run> runs{make<128, 256, 32, 64, 64, 3>(N, N, N, a, b, c), make<256, 128, 32, 64, 64, 3>(N, N, N, a, b, c), make<128, 256, 64, 64, 64, 3>(N, N, N, a, b, c),
    make<256, 128, 64, 64, 64, 3>(N, N, N, a, b, c), make<128, 256, 64, 64, 64, 4>(N, N, N, a, b, c), make<128, 128, 32, 64, 64, 4>(N, N, N, a, b, c), make<128, 128, 32, 64, 64, 5>(N, N, N, a, b, c), make<128, 128, 64, 64, 64, 3>(N, N, N, a, b, c), make<128, 128, 64, 64, 64, 4>(N, N, N, a, b, c)};
  cudaEvent_t e0, e1; cudaEventCreate(&e0); cudaEventCreate(&e1);
  int batch = argc > 2 ? atoi(argv[2]) : 100;
  for (auto& r : runs) if (!r.go()) { printf("%s fails\n", r.name.c_str()); r.name = ""; }
  for (int turn = 0; turn < 10; turn++) for (auto& r : runs) { if (r.name.empty()) continue;
    cudaEventRecord(e0); for (int i = 0; i < batch; i++) r.go(); cudaEventRecord(e1); cudaEventSynchronize(e1); float ms; cudaEventElapsedTime(&ms, e0, e1); if (turn) r.t.push_back(ms / batch); }
  for (auto& r : runs) { if (r.name.empty()) continue; std::sort(r.t.begin(), r.t.end()); float t = r.t[r.t.size() / 2]; printf("cutlass sm80 bf16 %d %s: %.1f us %.1f TFLOP/s\n", N, r.name.c_str(), t * 1e3, 2.0 * N * N * N / t / 1e9); }
  printf("%s\n", cudaGetErrorString(cudaGetLastError()));
}
