//! Programs of the CUDA toolkit on this machine: an environment variable, `PATH`, and wheels of PyPI, which install them outside of `PATH`.

use ptx_target::sort::SortSmall;
use std::fmt;
use std::path::{Path, PathBuf};

/// A program of the CUDA toolkit.
#[derive(Clone, Copy, Debug)]
pub struct Tool {
    /// `ptxas`
    pub name: &'static str,
    /// The environment variable that names one.
    variable: &'static str,
    /// The wheel that has it.
    wheel: &'static str,
    /// The folders that its wheels install it in.
    folders: &'static [&'static str],
}

/// The assembler. CUDA 12 has it in the wheel `nvidia-cuda-nvcc-cu12`, and there in the second folder.
pub const PTXAS: Tool = Tool {
    name: "ptxas",
    variable: "PTXAS",
    wheel: "nvidia-cuda-nvcc",
    folders: &["nvidia/cu13/bin", "nvidia/cuda_nvcc/bin"],
};

/// The disassembler.
pub const NVDISASM: Tool =
    Tool { name: "nvdisasm", variable: "NVDISASM", wheel: "nvidia-cuda-nvdisasm", folders: &["nvidia/cu13/bin"] };

impl Tool {
    /// The one that the variable names, else the first in `PATH`, else that of a wheel in the active environment of Python.
    pub fn find(&self) -> Option<PathBuf> {
        if let Some(named) = std::env::var_os(self.variable).filter(|path| !path.is_empty()) {
            return Some(named.into());
        }
        let name = format!("{}{}", self.name, std::env::consts::EXE_SUFFIX);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let in_path = std::env::split_paths(&path).map(|folder| folder.join(&name)).find(|file| file.is_file());
        in_path.or_else(|| environments().iter().find_map(|root| self.in_wheel(root, &name)))
    }

    /// In an environment with several versions of Python, that of the last.
    fn in_wheel(&self, root: &Path, name: &str) -> Option<PathBuf> {
        let versions = std::fs::read_dir(root.join("lib")).into_iter().flatten().flatten();
        let mut packages: Vec<PathBuf> = versions.map(|version| version.path().join("site-packages")).collect();
        packages.sort_small();
        packages.push(root.join("Lib/site-packages"));
        let files = packages
            .iter()
            .rev()
            .flat_map(|packages| self.folders.iter().map(move |folder| packages.join(folder).join(name)));
        files.into_iter().find(|file| file.is_file())
    }
}

/// The ways to install it, for a `help:`.
impl fmt::Display for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tool { name, variable, wheel, .. } = self;
        write!(
            f,
            "install the CUDA toolkit, or `pip install {wheel}` in the active environment of Python, or set {variable} to the path of {name}"
        )
    }
}

/// The active environments of Python: a virtual environment, and one of conda.
fn environments() -> Vec<PathBuf> {
    ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(std::env::var_os).map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::temp_dir::TempDir;

    #[test]
    fn wheels_are_found_in_an_environment() {
        let root = TempDir::new("ptx-expand-wheel").unwrap();
        for tool in [PTXAS, NVDISASM] {
            assert_eq!(tool.in_wheel(root.path(), tool.name), None);
            let folder = root.path().join("lib/python3.12/site-packages").join(tool.folders[0]);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join(tool.name), "").unwrap();
            assert_eq!(tool.in_wheel(root.path(), tool.name), Some(folder.join(tool.name)));
        }
    }
}
