// A dense switch (brx.idx), loops with early exits, local arrays with computed indices, alloca.
extern "C" __global__ void interpret(const unsigned char* code, int* out, int steps)
{
    int stack[16], top = 0, acc = threadIdx.x;
    for (int pc = 0; pc < steps; pc++) {
        switch (code[pc]) {
        case 0: acc += 1; break;
        case 1: acc -= stack[top & 15]; break;
        case 2: stack[top++ & 15] = acc; break;
        case 3: acc = stack[--top & 15]; break;
        case 4: acc *= 3; break;
        case 5: acc ^= out[acc & 31]; break;
        case 6: if (acc < 0) pc += 2; break;
        case 7: acc = __popc(acc); break;
        case 8: acc = min(acc, top); break;
        case 9: out[threadIdx.x] = acc; return;
        default: break;
        }
    }
    out[threadIdx.x] = acc + top;
}

#ifndef __CUDACC_RTC__
#include <alloca.h>

extern "C" __global__ void sort_local(int* data, int n)
{
    int* copy = static_cast<int*>(alloca(n * sizeof(int)));
    for (int i = 0; i < n; i++)
        copy[i] = data[threadIdx.x * n + i];
    for (int i = 1; i < n; i++)
        for (int j = i; j > 0 && copy[j - 1] > copy[j]; j--) {
            int t = copy[j];
            copy[j] = copy[j - 1];
            copy[j - 1] = t;
        }
    for (int i = 0; i < n; i++)
        data[threadIdx.x * n + i] = copy[i];
}
#endif

extern "C" __global__ void collatz(const unsigned long long* in, unsigned* out)
{
    unsigned long long n = in[threadIdx.x];
    unsigned steps = 0;
    while (n != 1) {
        n = n & 1 ? 3 * n + 1 : n >> 1;
        if (++steps > 10000u)
            goto give_up;
    }
    out[threadIdx.x] = steps;
    return;
give_up:
    out[threadIdx.x] = ~0u;
}
