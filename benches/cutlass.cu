// CUTLASS' products for sm_80, bf16 with f32 sums, both operands K-major: the rival of `examples/ampere/gemm.rs`, as a
// companion of `bench`, which looks for it at `target/cutlass`; the protocol stands in `benches/src/companion.rs`.
//
//     pip download --no-deps nvidia-cutlass && unzip nvidia_cutlass-*.whl 'cutlass_library/source/include/*'
//     nvcc -std=c++20 -O3 --expt-relaxed-constexpr -gencode=arch=compute_90,code=sm_90 \
//         -I cutlass_library/source/include benches/cutlass.cu -o target/cutlass

#include <cutlass/gemm/device/gemm.h>
#include <cutlass/gemm/threadblock/threadblock_swizzle.h>
#include <cutlass/version.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <iostream>
#include <memory>
#include <sstream>
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

// Some rows of the product, an element a thread, in double.
__global__ void reference(const Element* a, const Element* b, const Element* c, int n, int k, int step, double* sums) {
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * step;
    if (column >= n) return;
    double sum = 0;
    for (int i = 0; i < k; i++) sum += double(float(a[size_t(row) * k + i])) * float(b[size_t(column) * k + i]);
    double difference = float(c[size_t(row) * n + column]) - sum;
    atomicAdd(sums, difference * difference);
    atomicAdd(sums + 1, sum * sum);
}

struct Rival {
    std::string name;
    std::function<bool()> launch;
};

// The operands of the product that is open.
struct Memory {
    Element *a = nullptr, *b = nullptr, *c = nullptr;
    double* sums = nullptr;
    int m, n, k;

    Memory(int m, int n, int k) : m(m), n(n), k(k) {
        cudaMalloc(&a, size_t(m) * k * 2);
        cudaMalloc(&b, size_t(n) * k * 2);
        cudaMalloc(&c, size_t(m) * n * 2);
        cudaMalloc(&sums, 16);
        fill<<<512, 256>>>(a, size_t(m) * k, 1);
        fill<<<512, 256>>>(b, size_t(n) * k, 2);
    }

    ~Memory() {
        cudaFree(a);
        cudaFree(b);
        cudaFree(c);
        cudaFree(sums);
    }

    // How far the result of a launch on poisoned memory is from the reference; below zero if it is not launched.
    double error(const Rival& rival) {
        cudaMemset(c, 0xff, size_t(m) * n * 2);
        cudaMemset(sums, 0, 16);
        if (!rival.launch()) return -1;
        int rows = std::min(m, 64);
        reference<<<dim3((n + 255) / 256, rows), 256>>>(a, b, c, n, k, m / rows, sums);
        double found[2] = {};
        bool well = cudaMemcpy(found, sums, 16, cudaMemcpyDeviceToHost) == cudaSuccess;
        return well ? std::sqrt(found[0] / found[1]) : -1;
    }
};

template <int BM, int BN, int BK, int WM, int WN, int STAGES>
Rival rival(const Memory& on) {
    using P = Product<BM, BN, BK, WM, WN, STAGES>;
    auto name = "CUTLASS " + std::to_string(BM) + "x" + std::to_string(BN) + "x" + std::to_string(BK) + " s" +
                std::to_string(STAGES);
    auto launch = [m = on.m, n = on.n, k = on.k, a = on.a, b = on.b, c = on.c] {
        static P product;
        typename P::Arguments arguments({m, n, k}, {a, k}, {b, k}, {c, n}, {c, n}, {1.f, 0.f});
        return product(arguments) == cutlass::Status::kSuccess;
    };
    return {name, launch};
}

// Microseconds of one of so many launches; not above zero if there is none.
double time(const Rival& rival, int launches) {
    static cudaEvent_t begin = nullptr, end = nullptr;
    if (!begin) {
        cudaEventCreate(&begin);
        cudaEventCreate(&end);
    }
    float milliseconds = 0;
    cudaEventRecord(begin);
    for (int i = 0; i < launches; i++)
        if (!rival.launch()) return 0;
    cudaEventRecord(end);
    return cudaEventSynchronize(end) == cudaSuccess && cudaEventElapsedTime(&milliseconds, begin, end) == cudaSuccess
               ? milliseconds * 1e3 / launches
               : 0;
}

std::vector<std::string> words(const std::string& line) {
    std::vector<std::string> words;
    std::stringstream stream(line);
    for (std::string word; std::getline(stream, word, '\t');) words.push_back(word);
    words.resize(3);
    return words;
}

std::vector<Rival> open(std::unique_ptr<Memory>& memory, const std::string& kernel, const std::string& size) {
    int m, n, k;
    if (kernel != "gemm bf16 sm_80" || sscanf(size.c_str(), "%dx%dx%d", &m, &n, &k) != 3) return {};
    memory = std::make_unique<Memory>(m, n, k);
    const Memory& on = *memory;
    return {rival<128, 256, 32, 64, 64, 3>(on), rival<256, 128, 32, 64, 64, 3>(on), rival<128, 256, 64, 64, 64, 3>(on),
            rival<256, 128, 64, 64, 64, 3>(on), rival<128, 256, 64, 64, 64, 4>(on), rival<128, 128, 32, 64, 64, 4>(on),
            rival<128, 128, 32, 64, 64, 5>(on), rival<128, 128, 64, 64, 64, 3>(on), rival<128, 128, 64, 64, 64, 4>(on)};
}

int main() {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        std::cerr << "CUTLASS: there is no CUDA device\n";
        return 1;
    }
    std::unique_ptr<Memory> memory;
    std::vector<Rival> rivals;
    std::cout << "ready\tCUTLASS " << CUTLASS_MAJOR << '.' << CUTLASS_MINOR << '.' << CUTLASS_PATCH << std::endl;
    for (std::string line; std::getline(std::cin, line);) {
        auto said = words(line);
        if (said[0] == "open") {
            rivals = open(memory, said[1], said[2]);
            for (auto& one : rivals) {
                double error = memory->error(one);
                if (error < 0)
                    std::cout << "absent\t" << one.name << "\tit does not launch\n";
                else
                    std::cout << "rival\t" << one.name << '\t' << error << '\n';
            }
            std::cout << "done" << std::endl;
        } else if (said[0] == "time") {
            auto one = std::find_if(rivals.begin(), rivals.end(), [&](auto& one) { return one.name == said[1]; });
            double micros = one == rivals.end() ? 0 : time(*one, std::max(1, atoi(said[2].c_str())));
            std::cout << (micros > 0 ? "micros\t" + std::to_string(micros) : "failed\tno time") << std::endl;
        } else {
            rivals.clear();
            memory.reset();
            std::cout << "done" << std::endl;
        }
    }
}
