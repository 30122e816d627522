//! Draws the history of benchmarks as a page, `target/bench/history.html`.

use std::io;
use std::process::ExitCode;

use bench::{folder, history, history_file, page};

fn main() -> ExitCode {
    match draw() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn draw() -> io::Result<()> {
    let (from, to) = (history_file(), folder().join("history.html"));
    let of = |path: &std::path::Path, error: io::Error| {
        io::Error::other(format!("{}: {error}", path.display()))
    };
    let runs = history::read(&from).map_err(|error| of(&from, error))?;
    std::fs::create_dir_all(folder()).map_err(|error| of(&to, error))?;
    std::fs::write(&to, page::html(&runs)).map_err(|error| of(&to, error))?;
    println!("{}: {} runs", to.display(), runs.len());
    Ok(())
}
