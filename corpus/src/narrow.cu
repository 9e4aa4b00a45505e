// half, bfloat16 and the 8-bit floats: arithmetic and conversions.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

extern "C" __global__ void halves(const __half2* a, const __half2* b, __half2* c, float* f)
{
    int i = threadIdx.x;
    __half2 x = a[i], y = b[i];
    c[i] = __hfma2(x, y, __hmax2(__hadd2(x, y), h2exp2(x)));
    __half s = __hmul(__low2half(x), __high2half(y));
    f[i] = __half2float(s) + __half2int_rn(s) + (__hgt(s, __low2half(y)) ? 1.0f : 0.0f) + (float)htanh(s);
    f[i + 32] = __half2float(__float2half_rz(f[i])) + __half2float(__ushort2half_rn(7) / s);
}

extern "C" __global__ void brains(const __nv_bfloat162* a, __nv_bfloat162* b, float* f)
{
    int i = threadIdx.x;
    __nv_bfloat162 x = a[i];
    b[i] = __hfma2_relu(x, x, __float2bfloat162_rn(f[i]));
    f[i] = __bfloat162float(__low2bfloat16(__hmin2(x, b[i]))) + __bfloat162float(hrsqrt(__high2bfloat16(x)));
    b[i + 32] = __floats2bfloat162_rn(f[i], f[i + 1]);
}

extern "C" __global__ void bytes(const float2* in, __nv_fp8x2_e4m3* e4, __nv_fp8x2_e5m2* e5, float2* out)
{
    int i = threadIdx.x;
    e4[i] = __nv_fp8x2_e4m3(in[i]);
    e5[i] = __nv_fp8x2_e5m2(in[i]);
    float2 a = (float2)e4[i], b = (float2)e5[i];
    out[i] = make_float2(a.x + b.x, a.y * b.y);
}

extern "C" __global__ void casts(const double* d, long long* l, unsigned char* u, float* f)
{
    int i = threadIdx.x;
    double x = d[i];
    l[i] = __double2ll_rd(x) + llrint(x) + (long long)__double2uint_ru(x);
    u[i] = (unsigned char)x + (unsigned char)__saturatef(f[i]);
    f[i] = __double2float_rz(x) + __ll2float_ru(l[i]) + __uint_as_float(u[i]) + __frcp_rn(f[i]) + __fsqrt_rd(f[i]);
    f[i] += sinf(f[i]) + __expf(f[i]) + powf(f[i], 1.5f) + (float)fmod(x, 3.0) + __fdividef(f[i], 3.0f);
}
