//! The laboratory from the command line: lists, runs, interruptions, comparisons, refusals.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/carried.rs"]
mod carried;
mod support;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal};
use support::{flashyard, text};

fn namespace(results: &Path, extra: &[&str]) -> std::process::Output {
    let results = results.to_str().unwrap();
    let usual = [
        "lab",
        "run",
        "namespace",
        "--size",
        "smoke",
        "--results",
        results,
    ];
    flashyard(&[&usual[..], extra].concat())
}

#[test]
fn the_namespace_plan_runs_reports_and_compares() {
    let directory = tempfile::tempdir().unwrap();
    let [first, second] = ["a.json", "b.json"].map(|name| directory.path().join(name));
    let run = namespace(&first, &[]);
    assert!(run.status.success(), "{}", text(&run.stderr));
    let shown = text(&run.stdout);
    for expected in ["CM7-R, 6.4 TB namespace", "582", "1.88", "wear:", "5.79 TB"] {
        assert!(
            shown.contains(expected),
            "{expected} is missing in\n{shown}"
        );
    }
    // Complete results are not overwritten by accident.
    let again = namespace(&first, &[]);
    assert_eq!(again.status.code(), Some(2));
    assert!(
        text(&again.stderr).contains("--restart"),
        "{}",
        text(&again.stderr)
    );
    assert!(namespace(&first, &["--restart"]).status.success());
    assert!(namespace(&second, &[]).status.success());
    let report = flashyard(&["lab", "report", first.to_str().unwrap()]);
    assert!(
        text(&report.stdout).contains("CM7-V"),
        "{}",
        text(&report.stderr)
    );
    let [first, second] = [first, second].map(|path| path.to_str().unwrap().to_owned());
    let compared = flashyard(&["lab", "compare", &first, &second]);
    assert!(compared.status.success());
    assert!(
        text(&compared.stdout).contains("no difference"),
        "{}",
        text(&compared.stdout)
    );
}

#[test]
fn figures_beyond_what_the_plan_allows_end_with_1() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.json");
    let run = namespace(&path, &["--set", "target.cm7-r-6400gb.namespace=6000GB"]);
    assert_eq!(run.status.code(), Some(1));
    let error = text(&run.stderr);
    assert!(error.contains("random-write on cm7-r-6400gb"), "{error}");
}

#[test]
fn mistakes_end_with_2_and_a_place() {
    let listed = flashyard(&["lab", "list"]);
    assert!(text(&listed.stdout).contains("namespace"));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("mine.toml");
    std::fs::write(&path, "name = \"mine\"\ntitel = \"x\"\n").unwrap();
    let refused = flashyard(&["lab", "run", path.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(2));
    let error = text(&refused.stderr);
    assert!(
        error.contains("mine.toml:2:1: unknown field `titel`"),
        "{error}"
    );
    let refused = flashyard(&["lab", "run", "namespace", "--set", "run.seeds=1"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        text(&refused.stderr).contains("--set run.seeds=1"),
        "{}",
        text(&refused.stderr)
    );
    let refused = flashyard(&["lab", "run", "nothing"]);
    assert!(text(&refused.stderr).contains("there are: namespace"));
}

#[test]
fn ctrl_c_says_what_is_left_and_the_same_command_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("drive");
    let plan = directory.path().join("mine.toml");
    let results = directory.path().join("mine.json");
    let written = format!(
        "name = \"mine\"\ntitle = \"t\"\nquestion = \"q\"\nrun.repetitions = 2\n\
         run.runtime = \"500ms\"\nrun.ramp = \"0\"\nrun.runner = \"fio\"\n\
         [[target]]\nname = \"file\"\nkind = \"file\"\npaths = [\"{}\"]\nsize = \"16m\"\n\
         [[workload]]\nname = \"long\"\nrw = \"randwrite\"\n",
        file.display()
    );
    std::fs::write(&plan, written).unwrap();
    let arguments = |runtime: &str| {
        let set = format!("run.runtime={runtime}");
        let paths = [&plan, &results].map(|path| path.to_str().unwrap().to_owned());
        let [plan, results] = paths;
        let words = ["lab", "run", &plan, "--results", &results, "--set", &set];
        words.map(str::to_owned)
    };
    let child = Command::new(env!("CARGO_BIN_EXE_flashyard"))
        .args(arguments("300s"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while !file.exists() {
        std::thread::sleep(Duration::from_millis(20));
    }
    rustix::process::kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    let error = text(&ended.stderr);
    assert!(error.contains("stopped: 2 of 2 runs are left"), "{error}");
    assert!(!file.exists(), "the file that was made is left behind");
    let short = arguments("300ms");
    let short: Vec<&str> = short.iter().map(String::as_str).collect();
    let run = flashyard(&short);
    assert!(run.status.success(), "{}", text(&run.stderr));
}

#[test]
fn the_network_plan_runs_on_nodes_of_its_own_and_makes_a_page() {
    let directory = tempfile::tempdir().unwrap();
    let [results, page] = ["a.json", "a.html"].map(|name| directory.path().join(name));
    let (results, page) = (results.to_str().unwrap(), page.to_str().unwrap());
    let run = [
        "lab",
        "run",
        "network",
        "--size",
        "smoke",
        "--results",
        results,
    ];
    let run = flashyard(&run);
    assert!(run.status.success(), "{}", text(&run.stderr));
    let shown = text(&run.stdout);
    for expected in [
        "2 drives behind NVMe/TCP",
        "PORTS",
        "4 drives in this server",
    ] {
        assert!(
            shown.contains(expected),
            "{expected} is missing in\n{shown}"
        );
    }
    let kept = std::fs::read_to_string(results).unwrap();
    let kept: serde_json::Value = serde_json::from_str(&kept).unwrap();
    let runs = kept["runs"].as_array().unwrap();
    // Six patterns on one, two and four drives, and ten loads with processors: in the server,
    // behind TCP and, where there is RDMA, behind that.
    let over_rdma = !rdma::addresses().unwrap().is_empty();
    let ways = if over_rdma { 3 } else { 2 };
    assert_eq!(runs.len(), (6 * 3 + 10) * ways);
    let all = kept["left_out"].as_array().into_iter().flatten();
    let left_out: Vec<&str> = all.map(|one| one["target"].as_str().unwrap()).collect();
    let missing = ["rdma-1", "rdma-2", "rdma-4"];
    assert_eq!(left_out, if over_rdma { &[][..] } else { &missing });
    let served = runs.iter().rfind(|run| run["target"] == "networked-4");
    let processors = &served.unwrap()["measured"]["processors"][0]["percent"];
    assert!(
        processors["node of networked-4"].is_number(),
        "{processors}"
    );
    let report = flashyard(&["lab", "report", results, "--format", "html", "--to", page]);
    assert!(report.status.success(), "{}", text(&report.stderr));
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("How much network a node needs") && page.contains("<svg"));
    let lacks = "Not run: 1 drive behind NVMe/RDMA; 2 drives behind NVMe/RDMA; \
                 4 drives behind NVMe/RDMA (this machine has no RoCE device";
    assert_eq!(page.contains(lacks), !over_rdma);
}

#[test]
fn a_lab_that_stood_still_for_longer_than_its_node_waits_says_so_and_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let [plan, results] = ["mine.toml", "mine.json"].map(|name| directory.path().join(name));
    let written = "
        name = 'mine'
        title = 't'
        question = 'q'
        run.repetitions = 1
        run.runtime = '1s'
        [[target]]
        name = 'served'
        kind = 'node'
        profile = 'cm6-v-3.2'
        scale = 0.00002
        [[workload]]
        name = 'read'
        rw = 'randread'
        bs = ['4k', '8k']
        ";
    std::fs::write(&plan, written).unwrap();
    let [path, kept] = [&plan, &results].map(|path| path.to_str().unwrap());
    let again = ["lab", "run", path, "--results", kept];
    let child = Command::new(env!("CARGO_BIN_EXE_flashyard"))
        .args(again)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The first load has ended, and the connection is there for the second.
    while !results.exists() {
        std::thread::sleep(Duration::from_millis(20));
    }
    let lab = Pid::from_child(&child);
    rustix::process::kill_process(lab, Signal::STOP).unwrap();
    std::thread::sleep(Duration::from_secs(9));
    rustix::process::kill_process(lab, Signal::CONT).unwrap();
    let ended = child.wait_with_output().unwrap();
    let error = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{error}");
    for part in [
        "workload read-8k on served: connection to tcp://127.0.0.1:",
        "it had heard nothing of this host for more than 5s",
        "the same command goes on",
    ] {
        assert!(error.contains(part), "{part} is missing in\n{error}");
    }
    let rest = flashyard(&again);
    assert!(rest.status.success(), "{}", text(&rest.stderr));
}

#[test]
fn a_plan_of_nothing_but_what_the_machine_lacks_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let plan = directory.path().join("mine.toml");
    let written = "
        name = 'mine'
        title = 't'
        question = 'q'
        run.runtime = '100ms'
        [[target]]
        name = 'far'
        kind = 'node'
        profile = 'cm6-v-3.2'
        transport = 'rdma'
        [[workload]]
        name = 'read'
        rw = 'randread'
        ";
    std::fs::write(&plan, written).unwrap();
    let results = directory.path().join("mine.json");
    let [plan, results] = [&plan, &results].map(|path| path.to_str().unwrap());
    let run = flashyard(&["lab", "run", plan, "--results", results]);
    let over_rdma = !rdma::addresses().unwrap().is_empty();
    assert_eq!(run.status.code(), Some(if over_rdma { 0 } else { 2 }));
    let error = text(&run.stderr);
    let refused = error.contains("no target is left: this machine has no RoCE device");
    assert_eq!(refused, !over_rdma, "{error}");
}

/// Flash that was told to forget everything has nothing to move, and would make a node's drive
/// the faster one.
#[test]
fn drives_behind_a_node_start_as_drives_of_this_server_do() {
    let directory = tempfile::tempdir().unwrap();
    let [plan, results] = ["mine.toml", "mine.json"].map(|name| directory.path().join(name));
    let target = |kind: &str| {
        format!(
            "[[target]]\nname = \"{kind}\"\nkind = \"{kind}\"\nprofile = \"cm6-v-3.2\"\n\
             scale = 0.00002\ndilation = 50\n"
        )
    };
    let written = format!(
        "name = \"mine\"\ntitle = \"t\"\nquestion = \"q\"\nrun.repetitions = 1\n\
         run.runtime = \"2s\"\nrun.ramp = \"1s\"\n{}{}\
         [[workload]]\nname = \"random\"\nrw = \"randwrite\"\ndepth = 16\n",
        target("emulated"),
        target("node")
    );
    std::fs::write(&plan, written).unwrap();
    let [plan, results] = [&plan, &results].map(|path| path.to_str().unwrap());
    let run = flashyard(&["lab", "run", plan, "--results", results]);
    assert!(run.status.success(), "{}", text(&run.stderr));
    let kept = std::fs::read_to_string(results).unwrap();
    let kept: serde_json::Value = serde_json::from_str(&kept).unwrap();
    for run in kept["runs"].as_array().unwrap() {
        let moved = &run["measured"]["flash"]["write_amplification"];
        assert!(moved.as_f64().unwrap() > 1.5, "{run}");
    }
}

#[test]
fn the_raid6_plan_runs_on_a_pool_that_a_node_serves() {
    let directory = tempfile::tempdir().unwrap();
    let results = directory.path().join("a.json");
    let results = results.to_str().unwrap();
    let run = [
        "lab",
        "run",
        "raid6",
        "--size",
        "smoke",
        "--results",
        results,
    ];
    let run = flashyard(&run);
    assert!(run.status.success(), "{}", text(&run.stderr));
    let kept = std::fs::read_to_string(results).unwrap();
    let kept: serde_json::Value = serde_json::from_str(&kept).unwrap();
    let runs = kept["runs"].as_array().unwrap();
    // Five loads on two arrays in place, a log, and a log that is served.
    assert_eq!(runs.len(), 5 * 4);
    let served = runs.iter().filter(|run| run["target"] == "served");
    for run in served {
        let observed = &run["measured"]["observed"];
        assert_eq!(observed["drives"].as_array().unwrap().len(), 8);
        assert!(!observed["counters"].as_object().unwrap().is_empty());
    }
}

#[test]
fn results_replace_regular_files_only() {
    let directory = tempfile::tempdir().unwrap();
    let [link, file, sink] = ["link", "file", "sink"].map(|name| directory.path().join(name));
    std::os::unix::fs::symlink("file", &link).unwrap();
    std::os::unix::fs::symlink("/dev/null", &sink).unwrap();
    for results in [&link, &sink] {
        let run = namespace(results, &["--restart"]);
        assert!(run.status.success(), "{}", text(&run.stderr));
        assert!(results.is_symlink());
    }
    assert!(file.is_file(), "a symbolic link is followed");
    let null = std::fs::metadata("/dev/null").unwrap().file_type();
    assert!(std::os::unix::fs::FileTypeExt::is_char_device(&null));
}

/// A plan that writes to the file `drive` in a directory.
fn writing_to(directory: &Path) -> std::path::PathBuf {
    let plan = directory.join("mine.toml");
    let written = format!(
        "name = \"mine\"\ntitle = \"t\"\nquestion = \"q\"\nrun.repetitions = 2\n\
         run.runtime = \"100ms\"\nrun.ramp = \"0\"\n\
         [[target]]\nname = \"file\"\nkind = \"file\"\npaths = [\"{}\"]\n\
         [[workload]]\nname = \"short\"\nrw = \"randwrite\"\n",
        directory.join("drive").display()
    );
    std::fs::write(&plan, written).unwrap();
    plan
}

#[test]
fn a_target_that_carries_anything_is_written_to_only_when_told_so() {
    for carried in carried::MADE {
        let directory = tempfile::tempdir().unwrap();
        let drive = directory.path().join("drive");
        carried::make(carried, &drive);
        let before = std::fs::read(&drive).unwrap();
        let plan = writing_to(directory.path());
        let results = directory.path().join("mine.json");
        let [plan, results] = [&plan, &results].map(|path| path.to_str().unwrap());
        let run = ["lab", "run", plan, "--results", results];
        let refused = flashyard(&run);
        let message = text(&refused.stderr);
        assert!(!refused.status.success(), "{}", carried.name);
        for part in [carried.said, "--destroy"] {
            assert!(message.contains(part), "{}: {message}", carried.name);
        }
        assert!(before == std::fs::read(&drive).unwrap(), "{}", carried.name);
    }
}

#[test]
fn an_experiment_goes_on_over_what_it_wrote_itself() {
    let directory = tempfile::tempdir().unwrap();
    let drive = directory.path().join("drive");
    std::fs::File::create(&drive)
        .unwrap()
        .set_len(32 << 20)
        .unwrap();
    let plan = writing_to(directory.path());
    let results = directory.path().join("mine.json");
    let [plan, results, drive] =
        [&plan, &results, &drive].map(|path| path.to_str().unwrap().to_owned());
    let run = ["lab", "run", &plan, "--results", &results];
    // Two repetitions: the second finds what the first wrote.
    let done = flashyard(&run);
    assert!(done.status.success(), "{}", text(&done.stderr));
    // Another experiment does not take it for its own.
    let again = [&run[..], &["--restart"]].concat();
    let refused = flashyard(&again);
    let message = text(&refused.stderr);
    assert!(
        message.contains("not known") && message.contains("--destroy"),
        "{message}"
    );
    let told = flashyard(&[&again[..], &["--destroy", &drive]].concat());
    assert!(told.status.success(), "{}", text(&told.stderr));
}
