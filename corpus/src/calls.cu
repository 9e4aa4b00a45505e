// Calls: of functions that stay functions, through pointers, through a virtual table, recursive.
struct Wide {
    double x[4];
    char tag;
};

__device__ __noinline__ float square(float x) { return x * x; }
__device__ __noinline__ float half_of(float x) { return 0.5f * x; }
__device__ __noinline__ float negative(float x) { return -x; }
__device__ __noinline__ Wide widen(Wide w, short by)
{
    for (double& x : w.x)
        x += by;
    w.tag ^= 1;
    return w;
}
__device__ __noinline__ int ackermann(int m, int n)
{
    return m == 0 ? n + 1 : n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1));
}

using Unary = float (*)(float);
__device__ Unary table[3] = {square, half_of, negative};
__constant__ Unary chosen = half_of;

struct Shape {
    __device__ virtual float area() const = 0;
    __device__ virtual ~Shape() {}
};
struct Box : Shape {
    float a, b;
    __device__ Box(float a, float b) : a(a), b(b) {}
    __device__ float area() const override { return a * b; }
};
struct Disc : Shape {
    float r;
    __device__ explicit Disc(float r) : r(r) {}
    __device__ float area() const override { return 3.14159265f * r * r; }
};

extern "C" __global__ void through_pointers(float* data, const int* which, Wide* wide)
{
    int i = threadIdx.x;
    float x = table[which[i] % 3](data[i]);
    data[i] = chosen(x) + square(x);
    wide[i] = widen(wide[i], (short)which[i]);
}

extern "C" __global__ void through_tables(float* data, int* out)
{
    Box box(data[0], data[1]);
    Disc disc(data[2]);
    const Shape* shape = threadIdx.x & 1 ? static_cast<const Shape*>(&box) : &disc;
    data[threadIdx.x] = shape->area();
    out[threadIdx.x] = ackermann(2, threadIdx.x & 3);
}
