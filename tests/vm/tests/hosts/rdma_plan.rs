//! The shipped plan on the network, as a whole: drives in the lab's process, and behind nodes over
//! TCP and RDMA.

use vm::{Guest, Image};

use crate::profile_directory;
use crate::rdma::{DEVICE, devices, prepare};

const RESULTS: &str = "/tmp/network.json";

/// Six loads are run on each of nine targets, and twelve more on the three of four drives.
const LOADS: [(u32, &str); 2] = [
    (6, "local-1 local-2 networked-1 networked-2 rdma-1 rdma-2"),
    (18, "local-4 networked-4 rdma-4"),
];

/// Boots a guest and runs the plan in it.
pub fn run(image: &Image, name: &str) {
    let directory = profile_directory().with_file_name("vm");
    let devices = devices(&directory.join(format!("{name}.devices").replace(' ', "-")));
    let mut guest = Guest::boot(image, &devices, &directory, name).expect("the guest boots");
    prepare(&mut guest);
    guest.check("an RDMA device of software", DEVICE);
    plan(&mut guest);
    report(&mut guest);
}

fn plan(guest: &mut Guest) {
    let run = format!(
        "env LD_LIBRARY_PATH=/rdma flashyard lab run network --size smoke --results {RESULTS}"
    );
    guest.spawn("plan", &run);
    guest.join("the plan runs", "plan", 1200);
    for (loads, targets) in LOADS {
        guest.check(
            &format!("{loads} loads on each of {targets}"),
            &format!(
                "! grep left_out {RESULTS}
                for target in {targets}; do
                    [ $(grep -c \"\\\"target\\\": \\\"$target\\\"\" {RESULTS}) = {loads} ]
                done"
            ),
        );
    }
}

/// Each question about RDMA has an answer.
fn report(guest: &mut Guest) {
    let report = guest.check(
        "its report",
        &format!("flashyard lab report {RESULTS} --format markdown"),
    );
    assert!(!report.contains("Not answered"), "{report}");
    let answers = report
        .lines()
        .filter(|line| line.starts_with("| ") && line.contains("NVMe/RDMA over "));
    assert_eq!(answers.count(), 6, "{report}");
}
