//! The operations of `ptx-kernels` as functions for Python, one file an operation. `ptx_kernels/_operations.py` has their Python
//! signatures. The library is an extension module of Python, so that an import finds its file; the module itself has the functions of `door/`.

mod activation;
mod attention;
mod cache;
mod matmul;
mod module;
mod norm;
mod ranks;
mod softmax;
