//! Programs that a node tells something: they take it, slowly or not at all, or are gone.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::any::Any;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rustix::net::listen;

use crate::outputs::Fault;
use crate::support::{free_address, wait_until};

/// How long a slow program takes for a few bytes.
const SLOWLY: Duration = Duration::from_millis(20);

/// Longer than loopback takes for a connection.
const CONNECTED_WITHIN: Duration = Duration::from_millis(300);

/// A receiver over TCP: of syslog, or of figures.
pub struct Receiver {
    pub address: SocketAddr,
    listener: Option<TcpListener>,
    /// Connections for which nobody is there.
    waiting: Vec<TcpStream>,
    slow: Arc<AtomicBool>,
    received: Arc<Mutex<Vec<u8>>>,
}

impl Receiver {
    pub fn with(fault: Fault) -> Receiver {
        let mut receiver = Receiver {
            address: free_address(),
            listener: None,
            waiting: Vec::new(),
            slow: Arc::new(AtomicBool::new(fault == Fault::Slow)),
            received: Arc::default(),
        };
        match fault {
            Fault::Gone => {}
            Fault::Hangs => receiver.hang(),
            _ => receiver.take(),
        }
        receiver
    }

    /// Accepts nobody, and has no room for more who wait for that.
    fn hang(&mut self) {
        let listener = TcpListener::bind(self.address).unwrap();
        listen(&listener, 0).unwrap();
        let connect = || TcpStream::connect_timeout(&self.address, CONNECTED_WITHIN);
        self.waiting = std::iter::from_fn(|| connect().ok()).collect();
        self.listener = Some(listener);
    }

    fn take(&mut self) {
        let address = self.address;
        let listener = self.listener.take();
        let listener = listener.unwrap_or_else(|| TcpListener::bind(address).unwrap());
        listen(&listener, 16).unwrap();
        self.waiting.clear();
        let (slow, received) = (Arc::clone(&self.slow), Arc::clone(&self.received));
        // It ends with the program.
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (slow, received) = (Arc::clone(&slow), Arc::clone(&received));
                thread::spawn(move || read_all(stream.unwrap(), &slow, &received));
            }
        });
    }

    /// Takes whatever comes from now on.
    pub fn comes_back(&mut self, fault: Fault) {
        self.slow.store(false, Ordering::Relaxed);
        if matches!(fault, Fault::Gone | Fault::Hangs) {
            self.take();
        }
    }

    /// Waits until `text` arrives.
    pub fn gets(&self, text: &str) {
        wait_until(text, || {
            String::from_utf8_lossy(&self.received.lock().unwrap()).contains(text)
        });
    }
}

fn read_all(mut stream: TcpStream, slow: &AtomicBool, received: &Mutex<Vec<u8>>) {
    let mut part = [0; 256];
    while let Ok(length @ 1..) = stream.read(&mut part) {
        received.lock().unwrap().extend(&part[..length]);
        if slow.load(Ordering::Relaxed) {
            thread::sleep(SLOWLY);
        }
    }
}

/// Where a receiver is that reads nothing of what it is sent, or is gone; what is there, until it
/// is dropped.
pub fn silent(way: &str, fault: Fault) -> (SocketAddr, Box<dyn Any>) {
    let address = free_address();
    let there: Box<dyn Any> = match (fault, way) {
        (Fault::Gone, _) => Box::new(()),
        (_, "udp") => Box::new(UdpSocket::bind(address).unwrap()),
        // The system accepts for it.
        _ => Box::new(TcpListener::bind(address).unwrap()),
    };
    (address, there)
}

/// A socket as systemd has it for `fault`: nobody is there, or nobody takes what is in it. What is
/// there is dropped with the second.
pub fn of_systemd(directory: &Path, fault: Fault) -> (PathBuf, Box<dyn Any>) {
    let path = directory.join("notify");
    if fault == Fault::Gone {
        return (path, Box::new(()));
    }
    let socket = UnixDatagram::bind(&path).unwrap();
    if fault == Fault::Hangs {
        let sender = UnixDatagram::unbound().unwrap();
        sender.set_nonblocking(true).unwrap();
        while sender.send_to(b"FULL=1", &path).is_ok() {}
    }
    (path, Box::new(socket))
}

/// Programs that ask the node for more than fits in between, and read nothing of it, read it
/// slowly, or go at once. They are there until they are dropped.
pub fn clients(api: SocketAddr, fault: Fault) -> Vec<TcpStream> {
    let request = "GET /openapi.json HTTP/1.1\r\nHost: n\r\n\r\n";
    let ask = |_| {
        let mut stream = TcpStream::connect(api).unwrap();
        stream.write_all(request.repeat(20).as_bytes()).unwrap();
        stream
    };
    let asking: Vec<TcpStream> = (0..2).map(ask).collect();
    match fault {
        Fault::Gone => return Vec::new(),
        Fault::Slow => {
            for stream in &asking {
                let stream = stream.try_clone().unwrap();
                thread::spawn(move || read_all(stream, &AtomicBool::new(true), &Mutex::default()));
            }
        }
        _ => {}
    }
    asking
}
