//! The libraries that kernels are measured by. Each is looked for when it is asked for; a machine without it has no such
//! rival. Those of Python (torch, pyptx) stand in `benches/torch_rivals.py` and come back through `--merge`.

pub mod cublaslt;
