//! The place where processes meet, and what launchers of processes say about it.

use crate::error::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time that a rank waits for others, unless said otherwise.
const PATIENCE: Duration = Duration::from_secs(60);
/// The environment variable with the path of the meeting.
const PATH: &str = "PTX_RENDEZVOUS";
/// The variables with the rank on this machine and the number of ranks there: of torchrun, Open MPI, MPICH and Intel MPI, and Slurm.
const RANKS: [(&str, &str); 4] = [
    ("LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    ("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    ("SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"),
];
/// The variables that name a job, as far as they are there: two jobs on a machine differ in one of them.
const JOB: [&str; 6] = [
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_RESTART_COUNT",
    "MASTER_PORT",
    "PMIX_NAMESPACE",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
];

/// The place where the processes of a [`ProcessGroup`](crate::ProcessGroup) meet: a path of a local file system, the number of this process and
/// the number of all.
///
/// Rank 0 makes a socket at the path, and removes it as soon as all have come. A socket that a dead process left there is replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendezvous {
    path: PathBuf,
    rank: usize,
    ranks: usize,
    patience: Duration,
}

impl Rendezvous {
    /// A meeting of `ranks` processes at this path, of which this one is number `rank`. It waits 60 seconds for others.
    pub fn at(path: impl Into<PathBuf>, rank: usize, ranks: usize) -> Rendezvous {
        Rendezvous { path: path.into(), rank, ranks, patience: PATIENCE }
    }

    /// The same at a path in the folder for temporary files, for a job of this name. Only processes of the same user meet there.
    pub fn named(job: &str, rank: usize, ranks: usize) -> Rendezvous {
        let file = format!("ptx-ranks-{}", job.replace(['/', ' '], "_"));
        Rendezvous::at(std::env::temp_dir().join(file), rank, ranks)
    }

    /// The meeting of all processes of a job on this machine, as `torchrun`, MPI or Slurm describe it in the environment. The path is that in
    /// `PTX_RENDEZVOUS`, or one in the folder for temporary files that is named after the job.
    ///
    /// # Errors
    /// [`ErrorKind::BadOption`] if the variables are missing, or are no numbers.
    pub fn from_env() -> Result<Rendezvous> {
        Rendezvous::from_variables(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
    }

    fn from_variables(var: impl Fn(&str) -> Option<String>) -> Result<Rendezvous> {
        let named = RANKS.iter().find(|(rank, ranks)| var(rank).is_some() && var(ranks).is_some());
        let (rank, ranks) = named.ok_or_else(unnamed)?;
        let number = |name: &str| var(name).unwrap_or_default().trim().parse().map_err(|_| no_number(name));
        let job: Vec<String> = JOB.iter().filter_map(|name| var(name)).collect();
        let (rank, ranks) = (number(rank)?, number(ranks)?);
        match var(PATH) {
            Some(path) => Ok(Rendezvous::at(path, rank, ranks)),
            None if job.is_empty() => Err(unnamed()),
            None => Ok(Rendezvous::named(&job.join("-"), rank, ranks)),
        }
    }

    /// The same with another time for which this rank waits for others, here and later.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Rendezvous {
        self.patience = patience;
        self
    }

    /// The number of this process.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// The number of processes.
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    #[cfg(all(target_os = "linux", feature = "processes"))]
    pub(super) fn patience_of(&self) -> Duration {
        self.patience
    }
}

#[cold]
fn unnamed() -> Error {
    Error::new(ErrorKind::BadOption, "the environment does not say which rank of which job this process is")
        .possible("processes that `torchrun`, `mpirun` or `srun --ntasks-per-node` start")
        .help(format!("call `Rendezvous::at(path, rank, ranks)`; {PATH} gives a path to a job that has no name"))
}

#[cold]
fn no_number(name: &str) -> Error {
    Error::new(ErrorKind::BadOption, format!("the environment variable {name} is no number of a rank"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> Result<Rendezvous> {
        let find = |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        Rendezvous::from_variables(find)
    }

    #[test]
    fn launchers_describe_a_job() {
        let torch = [
            ("LOCAL_RANK", "1"),
            ("LOCAL_WORLD_SIZE", "4"),
            ("RANK", "5"),
            ("TORCHELASTIC_RUN_ID", "a/b"),
            ("MASTER_PORT", "29500"),
        ];
        let found = of(&torch).unwrap();
        assert_eq!((found.rank(), found.ranks()), (1, 4));
        assert!(found.path().ends_with("ptx-ranks-a_b-29500"), "{found:?}");
        let mpi = of(&[("OMPI_COMM_WORLD_LOCAL_RANK", "0"), ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"), (PATH, "/tmp/x")]);
        assert_eq!(mpi, Ok(Rendezvous::at("/tmp/x", 0, 2)));
    }

    #[test]
    fn a_job_without_a_name_or_a_number_is_an_error() {
        let nameless = [("LOCAL_RANK", "1"), ("LOCAL_WORLD_SIZE", "4")];
        let wrong = [("LOCAL_RANK", "one"), ("LOCAL_WORLD_SIZE", "4"), (PATH, "/tmp/x")];
        for (pairs, part) in [(&[][..], "torchrun"), (&nameless, PATH), (&wrong, "LOCAL_RANK is no number")] {
            let error = of(pairs).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BadOption);
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
