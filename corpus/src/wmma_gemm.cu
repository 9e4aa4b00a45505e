// One 16x16 tile of C = A * B a warp, with the fragments of mma.h.
#include <mma.h>
using namespace nvcuda;

extern "C" __global__ void wmma_gemm(const half* a, const half* b, float* c, int m, int n, int k)
{
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32 * 16, col = (blockIdx.y * blockDim.y + threadIdx.y) * 16;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.0f);
    for (int i = 0; i < k; i += 16) {
        wmma::load_matrix_sync(fa, a + row * k + i, k);
        wmma::load_matrix_sync(fb, b + col * k + i, k);
        wmma::mma_sync(acc, fa, fb, acc);
    }
    if (row < m && col < n)
        wmma::store_matrix_sync(c + row * n + col, acc, n, wmma::mem_row_major);
}

extern "C" __global__ void wmma_bytes(const signed char* a, const signed char* b, int* c)
{
    wmma::fragment<wmma::matrix_a, 32, 8, 16, signed char, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 32, 8, 16, signed char, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 32, 8, 16, int> acc;
    wmma::fill_fragment(acc, 0);
    wmma::load_matrix_sync(fa, a, 16);
    wmma::load_matrix_sync(fb, b, 16);
    wmma::mma_sync(acc, fa, fb, acc);
    for (int i = 0; i < acc.num_elements; i++)
        acc.x[i] = max(acc.x[i], 0);
    wmma::store_matrix_sync(c, acc, 8, wmma::mem_row_major);
}
