//! The examples, once: name, kernel, file. `all` runs them, the tests run them and assemble their PTX.

/// Hands the list to a macro; paths are relative to a folder of this package.
#[macro_export]
macro_rules! examples {
    ($then:ident) => {
        $then! {
            vector_add vector_add "../01_vector_add.rs"
            saxpy saxpy "../02_saxpy.rs"
            block_reduce block_reduce "../03_block_reduce.rs"
            histogram histogram "../04_histogram.rs"
            transpose transpose "../05_transpose.rs"
            softmax softmax "../06_softmax.rs"
            rms_norm rms_norm "../07_rms_norm.rs"
            ptx_module clamp "../08_ptx_module.rs"
            ptx_file dot "../09_ptx_file.rs"
            instances raise "../10_instances.rs"
            convolution kernels "../11_convolution.rs"
            bias_gelu kernels "../12_bias_gelu.rs"
            top_k kernels "../13_top_k.rs"
            scan kernels "../14_scan.rs"
            grid_sync normalize "../15_grid_sync.rs"
            ampere_gemm_warp gemm_warp "../ampere/gemm_warp.rs"
            ampere_gemm_pipelined gemm_pipelined "../ampere/gemm_pipelined.rs"
            ampere_gemm kernels "../ampere/gemm.rs"
            ampere_gemm_f64 kernels "../ampere/gemm_f64.rs"
            ampere_rms_norm kernels "../ampere/rms_norm.rs"
            ampere_layer_norm kernels "../ampere/layer_norm.rs"
            ampere_softmax kernels "../ampere/softmax.rs"
            ampere_swiglu kernels "../ampere/swiglu.rs"
            hopper_wgmma_tile kernels "../hopper/wgmma_tile.rs"
            hopper_gemm kernels "../hopper/gemm.rs"
            hopper_grouped_gemm kernels "../hopper/grouped_gemm.rs"
            hopper_rms_norm kernels "../hopper/rms_norm.rs"
            hopper_layer_norm kernels "../hopper/layer_norm.rs"
            hopper_softmax kernels "../hopper/softmax.rs"
            hopper_swiglu kernels "../hopper/swiglu.rs"
            blackwell_primitives kernels "../blackwell/primitives.rs"
            blackwell_norms kernels "../blackwell/norms.rs"
            blackwell_gemm kernels "../blackwell/gemm.rs"
            blackwell_gemm_pair kernels "../blackwell/gemm_pair.rs"
            blackwell_grouped_gemm kernels "../blackwell/grouped_gemm.rs"
            hopper_attention kernels "../hopper/attention.rs"
        }
    };
}
