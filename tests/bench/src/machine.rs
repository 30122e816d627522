//! The machine that a figure belongs to.

/// The processor's model, how many there are, and the kernel.
pub fn machine() -> String {
    let of_file = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let processors = of_file("/proc/cpuinfo");
    let model = processors
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map_or("unknown processor", |rest| {
            rest.trim_start_matches([' ', '\t', ':'])
        });
    let cores = processors
        .lines()
        .filter(|line| line.starts_with("processor"))
        .count();
    let kernel = of_file("/proc/sys/kernel/osrelease");
    format!("{model}, {cores} cores, Linux {}", kernel.trim())
}
