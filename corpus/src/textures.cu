// Texture and surface objects, of every shape the language has a function for.
template <typename T>
__device__ float sum(T v) { return v.x + v.y + v.z + v.w; }

extern "C" __global__ void textures(cudaTextureObject_t t, cudaTextureObject_t ints, float* out)
{
    float x = threadIdx.x * 0.125f, y = threadIdx.y * 0.25f;
    float s = sum(tex1D<float4>(t, x)) + tex1Dfetch<float>(t, threadIdx.x) + tex2D<float>(t, x, y);
    s += sum(tex2DLod<float4>(t, x, y, 1.5f)) + sum(tex3D<float4>(t, x, y, 0.5f)) + tex2DLayered<float>(t, x, y, 3);
    s += sum(tex2DGrad<float4>(t, x, y, make_float2(0.1f, 0.2f), make_float2(0.3f, 0.4f)));
    s += texCubemap<float>(t, x, y, 1.0f) + texCubemapLayered<float>(t, x, y, 1.0f, 2) + sum(tex2Dgather<float4>(t, x, y, 2));
    int4 i = tex2D<int4>(ints, x, y);
    uchar2 u = tex1Dfetch<uchar2>(ints, threadIdx.x);
    out[threadIdx.x] = s + i.x + i.w + u.y;
}

extern "C" __global__ void surfaces(cudaSurfaceObject_t in, cudaSurfaceObject_t out)
{
    int x = threadIdx.x, y = threadIdx.y;
    float v = surf1Dread<float>(in, x * 4) + surf2Dread<float>(in, x * 4, y, cudaBoundaryModeClamp);
    uchar4 c = surf2DLayeredread<uchar4>(in, x * 4, y, 1, cudaBoundaryModeZero);
    float4 w = surf3Dread<float4>(in, x * 16, y, 2);
    surf2Dwrite(v + c.x, out, x * 4, y);
    surf3Dwrite(w, out, x * 16, y, 0, cudaBoundaryModeZero);
    surf1Dwrite(make_short2(1, 2), out, x * 4, cudaBoundaryModeClamp);
    surf1DLayeredwrite((long long)x, out, x * 8, 1);
}
