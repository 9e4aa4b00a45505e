//! The machine of a run: its name, its driver, the day, and the two ceilings, copy bandwidth and matrix rate.

use crate::data;
use crate::options::Options;
use crate::rivals::Number;
use crate::rivals::cublaslt::{Lt, Problem};
use ptx_launch::Result;
use ptx_launch::prelude::*;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::process::Command;

/// The machine, the date, and its peak rates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// The device's name.
    pub device: String,
    /// The driver's version.
    pub driver: String,
    /// The day, as `date` prints it.
    pub date: String,
    /// The commit of the kernels; empty in files that do not state it.
    pub commit: String,
    /// GB/s, read and written, of a copy of 2 GiB.
    pub copy: f64,
    /// TFLOP/s of cuBLASLt's 8192 × 8192 × 8192 bf16 product.
    pub matrix: f64,
    /// Versions from the companions, or the reason for their absence: `torch 2.11.0, cuDNN 9.10`; then `cuDNN 9.10
    /// here`.
    pub companions: Vec<String>,
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Machine { device, driver, date, commit, copy, matrix, companions } = self;
        let commit = if commit.is_empty() { "unknown" } else { commit };
        write!(
            f,
            "{device}, driver {driver}, {date}, commit {commit}; copy {copy:.0} GB/s, cuBLASLt bf16 8192³ {matrix:.0} TFLOP/s"
        )?;
        companions.iter().try_for_each(|says| write!(f, "; {says}"))
    }
}

/// Asks and measures.
pub fn measure(device: &Device, stream: &Stream, options: &Options) -> Result<Machine> {
    let timed = device.is_cuda() && !options.check_only;
    Ok(Machine {
        device: device.name().to_owned(),
        driver: said("nvidia-smi", &["--query-gpu=driver_version", "--format=csv,noheader"]),
        date: said("date", &["-u", "+%Y-%m-%d"]),
        commit: said("git", &["describe", "--always", "--dirty"]),
        copy: if timed { copy_bandwidth(device, stream)? } else { 0.0 },
        // A ceiling that cannot be measured is not shown.
        matrix: if timed && !options.alone {
            matrix_rate(device, stream, options.seed).unwrap_or_default()
        } else {
            0.0
        },
        companions: Vec::new(),
    })
}

fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output
        .map(|output| String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned())
        .unwrap_or_default()
}

fn copy_bandwidth(device: &Device, stream: &Stream) -> Result<f64> {
    const WORDS: u32 = 1 << 28;
    let (from, mut to) = (device.zeros::<u32>(WORDS as usize)?, device.zeros::<u32>(WORDS as usize)?);
    let time = Timer::new().measure(stream, || data::copy::<u32>(stream, &from, &mut to, WORDS))?;
    Ok(time.rate(8.0 * f64::from(WORDS)) / 1e9)
}

fn matrix_rate(device: &Device, stream: &Stream, seed: u32) -> Result<f64> {
    const N: usize = 8192;
    let (a, b) =
        (data::normal::<bf16>(device, stream, N * N, seed)?, data::normal::<bf16>(device, stream, N * N, !seed)?);
    let c = device.zeros::<bf16>(N * N)?;
    let problem = Problem::new(Number::Bf16, [N; 3]);
    let product = Lt::open(device)?.plan(&problem, stream, (a.address(), b.address(), c.address()))?;
    let time = Timer::new().measure(stream, || product.launch(stream))?;
    Ok(time.rate(2.0 * (N as f64).powi(3)) / 1e12)
}
