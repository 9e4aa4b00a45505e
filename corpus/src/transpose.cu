// A transposition through padded shared memory, for several types: mangled names.
template <typename T, int Tile, int Rows>
__global__ void transpose(T* __restrict__ out, const T* __restrict__ in, int width, int height)
{
    __shared__ T tile[Tile][Tile + 1];
    int x = blockIdx.x * Tile + threadIdx.x, y = blockIdx.y * Tile + threadIdx.y;
    for (int j = 0; j < Tile; j += Rows)
        if (x < width && y + j < height)
            tile[threadIdx.y + j][threadIdx.x] = in[(size_t)(y + j) * width + x];
    __syncthreads();
    x = blockIdx.y * Tile + threadIdx.x;
    y = blockIdx.x * Tile + threadIdx.y;
    for (int j = 0; j < Tile; j += Rows)
        if (x < height && y + j < width)
            out[(size_t)(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];
}

namespace shapes {
struct Pair {
    double a;
    unsigned char b;
};
}

template __global__ void transpose<float, 32, 8>(float*, const float*, int, int);
template __global__ void transpose<unsigned char, 32, 8>(unsigned char*, const unsigned char*, int, int);
template __global__ void transpose<shapes::Pair, 16, 16>(shapes::Pair*, const shapes::Pair*, int, int);
