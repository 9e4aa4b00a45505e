// Variables with initial values in each state space, of each kind of type; pointers inside of initial values.
#include <cstdint>

struct Entry {
    uint8_t kind;
    uint16_t size;
    float scale;
    const char* name;
    int64_t offset;
};

__device__ const char first_name[] = "first\n\"quoted\"";
__device__ const char second_name[] = "second";
__device__ int counters[4] = {1, -2, 3};
__device__ int* middle = &counters[2];
__constant__ float coefficients[2][3] = {{1.0f, -2.5f, 1e-30f}, {3.0f, 0.0f, -0.0f}};
__constant__ double pi = 3.141592653589793;
__constant__ uint64_t masks[3] = {0xffffffffffffffffull, 1, 0x8000000000000000ull};
__device__ Entry entries[2] = {{1, 2, 0.5f, first_name, -8}, {3, 4, 0.25f, second_name + 3, 1ll << 40}};
__device__ volatile bool flag = true;
__device__ __managed__ int managed_count = 7;
static __device__ short cache[1 << 10];

extern "C" __global__ void tables(float* out, const char** names, int i)
{
    Entry e = entries[i & 1];
    out[threadIdx.x] = coefficients[i & 1][threadIdx.x % 3] * e.scale + (float)pi + *middle + (float)masks[i % 3];
    names[threadIdx.x] = e.name + e.size;
    counters[i & 3] += e.kind + (int)e.offset;
    cache[threadIdx.x] = (short)managed_count;
    managed_count = cache[i];
    flag = !flag;
}
