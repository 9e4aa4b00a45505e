//! The memory that this process may use, so that a kernel with large buffers ends in an error and not in the hands of the
//! system's out-of-memory killer.

use std::path::Path;

/// Of what is free, buffers get this part: the watcher remembers who touched what, and the files need room as well.
const PART: u64 = 2;

/// The number of bytes that all buffers of a run may have together; `None` where the system does not say.
pub(crate) fn for_buffers() -> Option<u64> {
    let limits = [available(), group_v2(), group_v1()];
    limits.into_iter().flatten().min().map(|free| free / PART)
}

/// The memory that Linux can provide without swapping.
fn available() -> Option<u64> {
    meminfo(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

fn meminfo(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The rest of a container's limit.
fn group_v2() -> Option<u64> {
    let root = Path::new("/sys/fs/cgroup");
    Some(number(&root.join("memory.max"))?.saturating_sub(number(&root.join("memory.current"))?))
}

fn group_v1() -> Option<u64> {
    let root = Path::new("/sys/fs/cgroup/memory");
    let limit = number(&root.join("memory.limit_in_bytes"))?;
    Some(limit.saturating_sub(number(&root.join("memory.usage_in_bytes"))?))
}

/// `max` is no number, and no limit.
fn number(path: &Path) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::meminfo;

    #[test]
    fn available_memory_is_read_in_bytes() {
        let text = "MemTotal:       24000000 kB\nMemFree:         1000000 kB\nMemAvailable:    2000000 kB\n";
        assert_eq!(meminfo(text), Some(2_048_000_000));
        assert_eq!(meminfo("MemTotal: 1 kB\n"), None);
    }
}
