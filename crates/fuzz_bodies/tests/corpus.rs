//! Every input that the fuzzers found worth keeping still passes.

use std::path::Path;

#[test]
fn the_corpora_pass() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    for (name, body) in fuzz_bodies::BODIES {
        let mut inputs = 0;
        for directory in ["corpus", "regressions"] {
            let Ok(entries) = std::fs::read_dir(fuzz.join(directory).join(name)) else {
                continue;
            };
            for entry in entries {
                let path = entry.expect("a directory that can be listed").path();
                let bytes = std::fs::read(&path).expect("a file that can be read");
                println!("{}", path.display());
                body(&bytes);
                inputs += 1;
            }
        }
        assert!(
            inputs > 0,
            "no corpus for {name}: fuzz/corpus/{name} is missing"
        );
    }
}
