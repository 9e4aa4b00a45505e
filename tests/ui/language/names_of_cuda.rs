use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = 32)]
fn kernel() {
    let i: u32 = blockIdx.x * blockDim.x + threadIdx.x;
    __syncthreads();
    syncthreads();
    let old: u32 = atomicAdd(i, 1);
}

fn main() {}
