//! Makes the golden images that are not there yet: `cargo run -p sim --example golden`. One that
//! is there is never made again.

use sim::golden;
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    for image in &golden::ALL {
        let path = folder.join(format!("{}.image", image.name));
        if path.exists() {
            println!("{} is there and stays as it is", image.name);
            continue;
        }
        let bytes = golden::make(image)?;
        std::fs::write(&path, &bytes)?;
        let checksum = sim::checksum(&bytes);
        println!(
            "{}: {} bytes, checksum {checksum:#018x}",
            image.name,
            bytes.len()
        );
    }
    Ok(())
}
