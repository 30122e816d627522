//! Job files: made from a plan's load, or adopted.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use super::allowed::{Wrong, check};
use super::{FioError, system};
use crate::load::Verify;
use crate::plan::Case;

/// The I/O engine that made files use.
const ENGINE: &str = "io_uring";

/// A path as fio wants it within a list of file names.
pub(super) fn escaped(path: &Path) -> String {
    path.display().to_string().replace(':', "\\:")
}

/// The job file of `case` on `paths`, which logs to `series`.
pub(super) fn made(case: &Case, paths: &[PathBuf], series: &Path) -> String {
    let load = &case.workload;
    let mut lines = vec![
        "[global]".to_owned(),
        format!("ioengine={ENGINE}"),
        "direct=1".to_owned(),
        format!("rw={}", load.pattern),
        format!("rwmixread={}", load.read_percent),
        format!("bs={}", load.transfer_bytes),
        format!("iodepth={}", load.depth),
        format!("numjobs={}", load.jobs),
        format!("offset={}", load.offset_bytes),
        format!("randseed={}", load.seed),
        "random_generator=tausworthe64".to_owned(),
        "group_reporting=1".to_owned(),
        "clat_percentiles=0".to_owned(),
        "lat_percentiles=1".to_owned(),
        format!("write_iops_log={}", series.display()),
        "log_avg_msec=1000".to_owned(),
        "per_job_logs=0".to_owned(),
    ];
    if let Some(runtime) = load.runtime {
        lines.push("time_based=1".to_owned());
        lines.push(format!("runtime={}ms", runtime.as_millis()));
    }
    lines.push(format!("ramp_time={}ms", load.ramp_time.as_millis()));
    lines.extend(load.size_bytes.map(|bytes| format!("size={bytes}")));
    if !load.random_map {
        lines.push("norandommap=1".to_owned());
    }
    if let Some(rate) = load.rate_iops {
        lines.push(format!("rate_iops={rate}"));
    }
    if load.verify == Verify::Crc32c {
        lines.push("verify=crc32c".to_owned());
    }
    for (index, path) in paths.iter().enumerate() {
        lines.push(format!("[drive-{index}]"));
        lines.push(format!("filename={}", escaped(path)));
    }
    let mut text = String::new();
    for line in lines {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{line}");
    }
    text
}

/// The job file at `path`, on whatever `${TARGET}` is: it may say so itself, or say nothing.
pub(super) fn adopted(path: &Path) -> Result<String, FioError> {
    let text = std::fs::read_to_string(path).map_err(system(path.display().to_string()))?;
    for (index, line) in text.lines().enumerate() {
        let (path, number) = (path.to_owned(), index + 1);
        check(line).map_err(|wrong| match wrong {
            Wrong::Place => FioError::Filename { path, line: number },
            Wrong::Option(option) => FioError::Option {
                path,
                line: number,
                option,
            },
        })?;
    }
    Ok(format!("[global]\nfilename=${{TARGET}}\n{text}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;

    #[test]
    fn a_made_file_says_what_the_load_says() {
        let text = "name = \"p\"\ntitle = \"t\"\nquestion = \"q\"\nrun.runner = \"fio\"\n\
                    run.runtime = \"2s\"\n[[target]]\nname = \"d\"\nkind = \"file\"\n\
                    paths = [\"/tmp/a:b\"]\n[[workload]]\nname = \"w\"\nrw = \"randrw\"\n\
                    bs = \"16k\"\ndepth = 16\njobs = 3\nread_percent = 70\nregion = \"1g\"\n";
        let (plan, _) = Plan::parse("p.toml", text, None, &[]).unwrap();
        let paths = &plan.targets[0].paths;
        let file = made(&plan.cases()[0], paths, Path::new("/tmp/x/series"));
        let expected = [
            "rw=randrw",
            "rwmixread=70",
            "bs=16384",
            "iodepth=16",
            "numjobs=3",
            "runtime=2000ms",
            "size=1073741824",
            "norandommap=1",
            "filename=/tmp/a\\:b",
            "direct=1",
        ];
        for line in expected {
            assert!(file.lines().any(|found| found == line), "{line} in\n{file}");
        }
    }

    #[test]
    fn a_file_of_ones_own_may_not_choose_what_is_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("own.fio");
        std::fs::write(
            &path,
            "[global]\nrw=randread\nfilename = ${TARGET}\n[a]\nbs=4k\n",
        )
        .unwrap();
        assert!(
            adopted(&path)
                .unwrap()
                .starts_with("[global]\nfilename=${TARGET}\n[global]")
        );
        for option in [
            "exec_prerun=touch /tmp/x",
            "  exec_postrun = touch /tmp/x",
            "include other.fio",
            "include=other.fio",
            "read_iolog=/etc/passwd",
            "write_bw_log=/etc/x",
            "ioengine=external:/tmp/x.so",
            "ioengine=/tmp/x.so",
            "verify_state_save=1",
            "opendir=/etc",
        ] {
            std::fs::write(&path, format!("[a]\nrw=read\n{option}\n")).unwrap();
            let error = adopted(&path).unwrap_err().to_string();
            assert!(error.contains("own.fio:3: "), "{option}: {error}");
            assert!(error.contains("not allowed"), "{option}: {error}");
        }
        std::fs::write(&path, "[a]\nrw=write\nfilename=/dev/sda\n").unwrap();
        let error = adopted(&path).unwrap_err().to_string();
        assert!(
            error.contains("own.fio:3: filename has to be ${TARGET}"),
            "{error}"
        );
    }
}
