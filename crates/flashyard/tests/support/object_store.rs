//! An S3 store on this machine: S3Proxy, over a directory.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "each test file uses what it needs")]

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use tempfile::TempDir;

use crate::support::{free_address, wait_until};

pub const BUCKET: &str = "backups";
const KEY: &str = "flashyard";
const SECRET: &str = "a secret of tests";
/// It says what goes wrong, and not each request.
const LOGGING: &str = r#"<configuration>
<appender name="STDERR" class="ch.qos.logback.core.ConsoleAppender">
<target>System.err</target><encoder><pattern>%msg%n</pattern></encoder></appender>
<root level="WARN"><appender-ref ref="STDERR"/></root>
</configuration>"#;

/// A store with one bucket; ended when dropped.
pub struct Store {
    directory: TempDir,
    address: SocketAddr,
    process: Child,
}

impl Store {
    pub fn start() -> Store {
        let directory = TempDir::new().unwrap();
        let address = free_address();
        std::fs::create_dir_all(directory.path().join("data").join(BUCKET)).unwrap();
        let data = directory.path().join("data");
        let settings = format!(
            "s3proxy.endpoint=http://{address}\n\
             s3proxy.authorization=aws-v2-or-v4\n\
             s3proxy.identity={KEY}\n\
             s3proxy.credential={SECRET}\n\
             jclouds.provider=filesystem-nio2\n\
             jclouds.identity=none\n\
             jclouds.credential=none\n\
             jclouds.filesystem.basedir={}\n",
            data.display()
        );
        let settings_file = directory.path().join("settings");
        std::fs::write(&settings_file, settings).unwrap();
        let logging = directory.path().join("logback.xml");
        std::fs::write(&logging, LOGGING).unwrap();
        let tools = std::env::var_os("FLASHYARD_LAB_TOOLS").expect("make installs S3Proxy there");
        let process = Command::new("java")
            .args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx512m"])
            .arg(format!("-Dlogback.configurationFile={}", logging.display()))
            .arg("-cp")
            .arg(Path::new(&tools).join("s3proxy/*"))
            .args(["org.gaul.s3proxy.Main", "--properties"])
            .arg(settings_file)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let store = Store {
            directory,
            address,
            process,
        };
        wait_until("the store takes connections", || {
            TcpStream::connect(address).is_ok()
        });
        store
    }

    /// Has a program find the store.
    pub fn tell<'a>(&self, program: &'a mut Command) -> &'a mut Command {
        self.tell_of(self.address, program)
    }

    /// The same, by another way.
    pub fn tell_of<'a>(&self, address: SocketAddr, program: &'a mut Command) -> &'a mut Command {
        program
            .env("AWS_ENDPOINT_URL", format!("http://{address}"))
            .env("AWS_ALLOW_HTTP", "true")
            .env("AWS_REGION", "us-east-1")
            .env("AWS_ACCESS_KEY_ID", KEY)
            .env("AWS_SECRET_ACCESS_KEY", SECRET)
    }

    /// A file that holds an object.
    pub fn file(&self, key: &str) -> PathBuf {
        self.directory.path().join("data").join(BUCKET).join(key)
    }

    /// What the bucket holds, of objects and of parts of some.
    pub fn files(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut folders = vec![self.file("")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let entry = entry.unwrap();
                match entry.file_type().unwrap().is_dir() {
                    true => folders.push(entry.path()),
                    false => found.push(entry.path()),
                }
            }
        }
        found
    }

    /// A way to the store which is cut once so many bytes came from it.
    pub fn cut_after(&self, bytes: u64, again: Again) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (store, left) = (self.address, Arc::new(AtomicU64::new(bytes)));
        thread::spawn(move || {
            for client in listener.incoming().map(Result::unwrap) {
                let is_cut = left.load(Ordering::SeqCst) == 0;
                if is_cut && again == Again::Never {
                    continue;
                }
                let bound = if is_cut {
                    None
                } else {
                    Some(Arc::clone(&left))
                };
                let server = TcpStream::connect(store).unwrap();
                let (from_client, to_client) = (client.try_clone().unwrap(), client);
                let (from_server, to_server) = (server.try_clone().unwrap(), server);
                thread::spawn(move || pass(from_client, to_server, None));
                thread::spawn(move || pass(from_server, to_client, bound));
            }
        });
        address
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let process = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(process, signal).unwrap();
    }
}

/// What becomes of connections after the cut.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Again {
    Works,
    Never,
}

/// Passes bytes on, as many as are left; then the connection ends.
fn pass(mut from: TcpStream, mut to: TcpStream, left: Option<Arc<AtomicU64>>) {
    let mut buffer = vec![0; 64 << 10];
    let mut more = || -> io::Result<bool> {
        let read = from.read(&mut buffer)?;
        let allowed = left.as_ref().map_or(read as u64, |left| {
            let taken = |it: u64| Some(it.saturating_sub(read as u64));
            let had = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, taken);
            had.unwrap().min(read as u64)
        });
        to.write_all(&buffer[..allowed as usize])?;
        Ok(read > 0 && allowed == read as u64)
    };
    while more().unwrap_or(false) {}
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
