//! Makes types and services of the interface's description, without `protoc`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto/csi.proto");
    let described = protox::compile(["csi.proto"], ["proto"])?;
    tonic_prost_build::configure()
        .build_transport(false)
        .compile_fds(described)?;
    Ok(())
}
