//! `forward PORT SOCKET`: connections to a TCP port go on to a Unix socket, so that a program
//! outside of the guest speaks to one inside.

use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::thread;

use anyhow::{Context, Result};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Err(error) = forward(&arguments);
    eprintln!("forward: {error:#}");
    ExitCode::FAILURE
}

fn forward(arguments: &[String]) -> Result<std::convert::Infallible> {
    let [port, socket] = arguments else {
        anyhow::bail!("allowed: PORT SOCKET");
    };
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port.parse()?))?;
    loop {
        let (outer, _) = listener.accept()?;
        // While nobody listens there, the connection ends.
        if let Ok(inner) = UnixStream::connect(socket) {
            both_ways(outer, inner).context("a connection")?;
        }
    }
}

fn both_ways(outer: TcpStream, inner: UnixStream) -> Result<()> {
    outer.set_nodelay(true)?;
    let (mut from_outer, mut to_inner) = (outer.try_clone()?, inner.try_clone()?);
    thread::spawn(move || {
        // A side that is gone ends the other one.
        let _ = std::io::copy(&mut from_outer, &mut to_inner);
        let _ = to_inner.shutdown(Shutdown::Write);
    });
    let (mut from_inner, mut to_outer) = (inner, outer);
    thread::spawn(move || {
        let _ = std::io::copy(&mut from_inner, &mut to_outer);
        let _ = to_outer.shutdown(Shutdown::Both);
    });
    Ok(())
}
