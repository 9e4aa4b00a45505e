//! Records of searches, in a file that people can read: one line for each device, driver, set of kernels and problem.

use crate::device::Device;
use crate::driver::Driver;
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::{Kernel, Module};
use std::fmt::Write;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::time::Duration;

/// The first line of the file.
const HEADER: &str =
    "# Tuning records, format 1: device, driver, kernels, problem, fastest, nanoseconds; separated by tabs.";

/// The fastest candidates of earlier searches.
///
/// A record holds for one device, driver version and set of kernels, named by [`Records::hash`]: after a change of any of them it is
/// not found, and the caller takes its default. Nothing is read or written but by [`load`](Records::load) and [`save`](Records::save).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records {
    /// In the order of their keys.
    all: Vec<(Key, Record)>,
}

/// The fastest candidate for a problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its name.
    pub name: String,
    /// Its median time when it was found.
    pub time: Duration,
}

/// Device, driver, kernels, problem.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key([String; 4]);

impl Key {
    fn new(device: &Device, kernels: &[u64], problem: &str) -> Key {
        let driver = match Driver::get() {
            Ok(driver) if device.is_cuda() => format!("{}.{}", driver.version().0, driver.version().1),
            _ => "-".to_owned(),
        };
        // Kernels in any order are the same set.
        let kernels = kernels.iter().fold(0u64, |all, hash| all.wrapping_add(*hash));
        Key([field(device.name()), driver, format!("{kernels:016x}"), field(problem)])
    }
}

/// A field of a line: without the characters that end it.
fn field(text: &str) -> String {
    text.replace(['\t', '\n', '\r'], " ")
}

impl Records {
    /// No records.
    pub fn new() -> Records {
        Records::default()
    }

    /// The records of a file.
    ///
    /// # Errors
    /// [`ErrorKind::BadOption`] if the file cannot be read, or a line is no record; the message names the line.
    pub fn load(path: impl AsRef<Path>) -> Result<Records> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path).map_err(|why| unreadable(path, &why))?;
        Records::parse(&text).map_err(|(line, why)| malformed(path, line, why))
    }

    /// The records of a text, as [`Records::load`] reads it; else the line with an error, and the error.
    fn parse(text: &str) -> Result<Records, (usize, &'static str)> {
        let mut records = Records::new();
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
            let fields: Vec<&str> = line.split('\t').collect();
            let [device, driver, kernels, problem, name, time] = fields[..] else {
                return Err((at + 1, "six fields separated by tabs"));
            };
            let nanos = time.parse().map_err(|_| (at + 1, "a number of nanoseconds at the end"))?;
            let key = Key([device, driver, kernels, problem].map(str::to_owned));
            records.put(key, Record { name: name.to_owned(), time: Duration::from_nanos(nanos) });
        }
        Ok(records)
    }

    /// Writes all records to a file. A reader sees the old file or the new one, never a part; if several write at a time, one of theirs.
    ///
    /// # Errors
    /// [`ErrorKind::BadOption`] if the file cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let mut beside = path.as_os_str().to_owned();
        beside.push(format!(".{:016x}.new", RandomState::new().hash_one(std::process::id())));
        let written = std::fs::write(&beside, self.to_string()).and_then(|()| std::fs::rename(&beside, path));
        written.map_err(|why| {
            // The first error is the one to report.
            let _ = std::fs::remove_file(&beside);
            unreadable(path, &why)
        })
    }

    /// A number for a kernel: it changes when the PTX of any of its targets does.
    pub fn hash(kernel: &Kernel) -> u64 {
        fnv1a(Records::hash_module(kernel.module), kernel.entry)
    }

    /// A number for all kernels of a module.
    pub fn hash_module(module: &Module) -> u64 {
        let texts = module.texts().unwrap_or_default().into_iter().flat_map(|(arch, ptx)| [arch, ptx]);
        texts.fold(0xcbf2_9ce4_8422_2325, fnv1a)
    }

    /// Adds the fastest candidate of a search among `kernels`, each by its [`hash`](Records::hash). An earlier record is replaced.
    pub fn insert(&mut self, device: &Device, kernels: &[u64], problem: &str, name: &str, time: Duration) {
        self.put(Key::new(device, kernels, problem), Record { name: field(name), time });
    }

    /// The fastest candidate for a problem on this device, with its driver and these kernels.
    pub fn find(&self, device: &Device, kernels: &[u64], problem: &str) -> Option<&Record> {
        self.place(&Key::new(device, kernels, problem)).ok().map(|at| &self.all[at].1)
    }

    /// The place of a key: where it is, or where it belongs.
    fn place(&self, key: &Key) -> Result<usize, usize> {
        self.all.binary_search_by(|(known, _)| known.cmp(key))
    }

    fn put(&mut self, key: Key, record: Record) {
        match self.place(&key) {
            Ok(at) => self.all[at].1 = record,
            Err(at) => self.all.insert(at, (key, record)),
        }
    }

    /// Adds all records of others; theirs replace those with the same key.
    pub fn extend(&mut self, others: Records) {
        others.all.into_iter().for_each(|(key, record)| self.put(key, record));
    }

    /// All problems and their records, of any device, driver and kernels.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Record)> {
        self.all.iter().map(|(Key([.., problem]), record)| (problem.as_str(), record))
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

/// The text of the file.
impl std::fmt::Display for Records {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{HEADER}")?;
        for (Key(key), Record { name, time }) in &self.all {
            let mut line = key.join("\t");
            write!(line, "\t{name}\t{}", time.as_nanos())?;
            writeln!(f, "{line}")?;
        }
        Ok(())
    }
}

/// FNV-1a, which stays the same between versions of the compiler.
fn fnv1a(hash: u64, text: &str) -> u64 {
    let bytes = text.bytes().chain([0xff]);
    bytes.fold(hash, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cold]
fn unreadable(path: &Path, why: &std::io::Error) -> Error {
    Error::new(ErrorKind::BadOption, format!("tuning records in `{}`: {why}", path.display()))
}

#[cold]
fn malformed(path: &Path, line: usize, expected: &str) -> Error {
    Error::new(ErrorKind::BadOption, format!("tuning records in `{}`, line {line}", path.display()))
        .possible(expected)
        .help("remove the line, or tune again")
}

#[cfg(all(test, feature = "cpu"))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use ptx_expand::temp_dir::TempDir;

    #[test]
    fn records_survive_a_file() {
        let (device, mut records) = (Device::cpu(), Records::new());
        records.insert(&device, &[1, 2], "m 64\tn 64", "tall", Duration::from_nanos(1500));
        records.insert(&device, &[1, 2], "m 1", "flat", Duration::from_micros(2));
        let again = Records::parse(&records.to_string()).unwrap();
        assert_eq!(again, records);
        let found = again.find(&device, &[2, 1], "m 64\tn 64").unwrap();
        assert_eq!((found.name.as_str(), found.time.as_nanos()), ("tall", 1500));
        assert!(again.find(&device, &[1, 3], "m 1").is_none(), "another kernel");
        assert_eq!(again.len(), 2);
        let problems: Vec<_> = again.iter().map(|(problem, record)| (problem, record.name.as_str())).collect();
        assert_eq!(problems, [("m 1", "flat"), ("m 64\tn 64".replace('\t', " ").as_str(), "tall")]);
        assert_ne!(fnv1a(1, "a"), fnv1a(1, "b"));
    }

    /// Each thread's file is whole, and no thread's file takes another one's place before it is written.
    #[test]
    fn threads_save_to_one_file() {
        let folder = TempDir::new("ptx-records").unwrap();
        let path = folder.path().join("records");
        std::thread::scope(|scope| {
            for thread in 1..=4 {
                let (path, device) = (&path, Device::cpu());
                scope.spawn(move || {
                    let mut records = Records::new();
                    (0..thread * 50)
                        .for_each(|n| records.insert(&device, &[], &format!("n {n}"), "one", Duration::ZERO));
                    for _ in 0..50 {
                        records.save(path).unwrap();
                        assert_eq!(Records::load(path).unwrap().len() % 50, 0);
                    }
                });
            }
        });
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no other file is left");
        assert!(Records::new().save(folder.path()).is_err(), "a folder");
    }

    #[test]
    fn lines_that_are_no_record_are_named() {
        assert_eq!(Records::parse("# x\n\na\tb\n"), Err((3, "six fields separated by tabs")));
        assert!(Records::parse("a\tb\tc\td\te\tsoon").is_err());
        let error = Records::load("/nowhere/at/all").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadOption);
    }
}
