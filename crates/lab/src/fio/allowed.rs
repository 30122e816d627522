//! What a job file of one's own may say: how the load is, never which files and programs it uses.

/// The I/O engines that reach a target and nothing else; `external` and a path load a library.
pub(super) const ENGINES: [&str; 8] = [
    "io_uring", "libaio", "posixaio", "psync", "pvsync", "pvsync2", "sync", "vsync",
];

/// Options that name no file and run no program. fio has others, such as `exec_prerun`,
/// `read_iolog` and `write_bw_log`, which do.
const OPTIONS: &[&str] = &[
    "ba",
    "blockalign",
    "blocksize",
    "blocksize_range",
    "blocksize_unaligned",
    "bs",
    "bs_is_seq_rand",
    "bs_unaligned",
    "bsrange",
    "bssplit",
    "buffer_compress_chunk",
    "buffer_compress_percentage",
    "buffered",
    "clat_percentiles",
    "continue_on_error",
    "cpumask",
    "cpus_allowed",
    "cpus_allowed_policy",
    "create_fsync",
    "create_on_open",
    "create_serialize",
    "dedupe_mode",
    "dedupe_percentage",
    "description",
    "direct",
    "disable_bw_measurement",
    "disable_clat",
    "disable_lat",
    "disable_slat",
    "do_verify",
    "end_fsync",
    "error_dump",
    "exitall",
    "exitall_on_error",
    "fdatasync",
    "fill_device",
    "fill_fs",
    "fixedbufs",
    "fsync",
    "fsync_on_close",
    "group_reporting",
    "gtod_cpu",
    "gtod_reduce",
    "hipri",
    "hipri_percentage",
    "invalidate",
    "io_limit",
    "io_size",
    "iodepth",
    "iodepth_batch",
    "iodepth_batch_complete",
    "iodepth_batch_complete_max",
    "iodepth_batch_complete_min",
    "iodepth_batch_submit",
    "iodepth_low",
    "iomem_align",
    "kb_base",
    "lat_percentiles",
    "latency_percentile",
    "latency_run",
    "latency_target",
    "latency_window",
    "loops",
    "max_latency",
    "mem_align",
    "name",
    "new_group",
    "nice",
    "nonvectored",
    "norandommap",
    "nowait",
    "numa_cpu_nodes",
    "numa_mem_policy",
    "number_ios",
    "numjobs",
    "offset",
    "offset_align",
    "offset_increment",
    "percentage_random",
    "percentile_list",
    "pre_read",
    "prio",
    "prioclass",
    "ramp_time",
    "random_distribution",
    "random_generator",
    "randrepeat",
    "randseed",
    "rate",
    "rate_cycle",
    "rate_iops",
    "rate_iops_min",
    "rate_min",
    "rate_process",
    "readwrite",
    "refill_buffers",
    "registerfiles",
    "runtime",
    "rw",
    "rw_sequencer",
    "rwmixread",
    "rwmixwrite",
    "scramble_buffers",
    "serialize_overlap",
    "size",
    "slat_percentiles",
    "softrandommap",
    "stonewall",
    "sync",
    "thinktime",
    "thinktime_blocks",
    "thread",
    "time_based",
    "verify",
    "verify_backlog",
    "verify_dump",
    "verify_fatal",
    "verify_interval",
    "verify_only",
    "zero_buffers",
];

/// Options that say where the load goes: `${TARGET}`, and nothing else.
const PLACES: [&str; 3] = ["directory", "filename", "filename_format"];

/// What is wrong with a line of a job file.
pub(super) enum Wrong {
    /// It names a target of its own.
    Place,
    /// This option, or this value of it, is not among those that are allowed.
    Option(String),
}

/// Whether a line may be in a job file of one's own.
pub(super) fn check(line: &str) -> Result<(), Wrong> {
    let line = line.trim();
    if line.is_empty() || line.starts_with(['#', ';', '[']) {
        return Ok(());
    }
    let (key, value) = line.split_once('=').unwrap_or((line, ""));
    let (key, value) = (key.trim(), value.trim());
    if PLACES.contains(&key) {
        return match value {
            "${TARGET}" => Ok(()),
            _ => Err(Wrong::Place),
        };
    }
    let allowed = match key {
        "ioengine" => ENGINES.contains(&value),
        _ => OPTIONS.contains(&key),
    };
    match allowed {
        true => Ok(()),
        false => Err(Wrong::Option(line.to_owned())),
    }
}
