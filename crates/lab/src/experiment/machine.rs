//! [`Machine`]: what an experiment ran on.

use serde::{Deserialize, Serialize};

/// The machine, as results name it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Its host name.
    pub host: String,
    /// The processor's model.
    pub processor: String,
    /// Processors that this program may use.
    pub processors: usize,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Kernel and its release.
    pub kernel: String,
    /// The distribution.
    pub system: String,
}

impl Machine {
    /// This machine; what cannot be found out is empty.
    pub fn this() -> Machine {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let name = rustix::system::uname();
        let words = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
        Machine {
            host: words(name.nodename()),
            processor: value_of(&read("/proc/cpuinfo"), "model name", ':'),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: value_of(&read("/proc/meminfo"), "MemTotal", ':')
                .trim_end_matches(" kB")
                .parse::<u64>()
                .map_or(0, |kib| kib << 10),
            kernel: format!("{} {}", words(name.sysname()), words(name.release())),
            system: value_of(&read("/etc/os-release"), "PRETTY_NAME", '=')
                .trim_matches('"')
                .to_owned(),
        }
    }

    /// The machine in one line.
    pub fn summary(&self) -> String {
        format!(
            "{} x {}, {:.0} GiB, {}, {}",
            self.processors,
            self.processor,
            self.memory_bytes as f64 / f64::from(1 << 30),
            self.system,
            self.kernel
        )
    }
}

/// What follows the first line's `key` and separator.
fn value_of(text: &str, key: &str, separator: char) -> String {
    let mut lines = text.lines().filter_map(|line| line.split_once(separator));
    let found = lines.find(|(name, _)| name.trim() == key);
    found.map_or_else(String::new, |(_, value)| value.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_processors_memory_and_a_kernel() {
        let machine = Machine::this();
        assert!(machine.processors > 0 && machine.memory_bytes > 0);
        assert!(machine.kernel.starts_with("Linux "), "{machine:?}");
    }

    #[test]
    fn values_are_found_by_their_whole_key() {
        let text = "model\t\t: 85\nmodel name\t: Some CPU @ 2 GHz\n";
        assert_eq!(value_of(text, "model name", ':'), "Some CPU @ 2 GHz");
        assert_eq!(value_of(text, "missing", ':'), "");
    }
}
