//! [`Stream`]: a TCP stream, secured or not.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::rc::Rc;

use access::TlsPsk;
use block::Buffer;
use reactor::net::{SendBatch, TcpStream};

use crate::{Session, TlsError, identities};

/// Ciphertext that one receive brings at most.
const RECEIVE_BYTES: usize = 128 << 10;

/// A connection. Clones are handles of the same one: one task may receive while another sends.
#[derive(Clone)]
pub struct Stream {
    tcp: TcpStream,
    secured: Option<Rc<Secured>>,
}

struct Secured {
    session: RefCell<Session>,
    /// Away while a receive is under way.
    received: RefCell<Option<Buffer>>,
    /// What is to be encrypted, in one piece: short records cost most.
    plaintext: RefCell<Vec<u8>>,
    /// Away while a send is under way.
    sent: RefCell<Option<SendBatch>>,
}

impl Stream {
    /// A connection in the clear.
    pub fn plain(tcp: TcpStream) -> Stream {
        Stream { tcp, secured: None }
    }

    /// Secures a connection to a controller.
    ///
    /// # Errors
    /// [`TlsError`] when both ends do not agree.
    pub async fn connect(tcp: TcpStream, psk: &TlsPsk) -> Result<Stream, TlsError> {
        let stream = Stream::securing(tcp, Session::host(psk)?);
        stream.shake_hands().await?;
        Ok(stream)
    }

    /// Secures a connection of a host, with the key that `choose` gives for the identities that the
    /// host offers.
    ///
    /// # Errors
    /// [`TlsError`] when there is no such key, or both ends do not agree.
    pub async fn accept(
        tcp: TcpStream,
        choose: impl FnOnce(&[String]) -> Option<TlsPsk>,
    ) -> Result<Stream, TlsError> {
        let mut hello = Vec::new();
        let mut buffer = Buffer::new(RECEIVE_BYTES);
        let offered = loop {
            let (back, received) = tcp.recv(buffer, 0..RECEIVE_BYTES).await;
            buffer = back;
            let bytes = arrived(&buffer, received)?;
            hello.extend_from_slice(bytes);
            if let Some(offered) = identities(&hello)? {
                break offered;
            }
        };
        let psk = choose(&offered).ok_or(TlsError::UnknownIdentity)?;
        let mut session = Session::controller(&psk)?;
        session.receive(&hello);
        let stream = Stream::securing(tcp, session);
        stream.shake_hands().await?;
        Ok(stream)
    }

    fn securing(tcp: TcpStream, session: Session) -> Stream {
        let secured = Secured {
            session: RefCell::new(session),
            received: RefCell::new(Some(Buffer::new(RECEIVE_BYTES))),
            plaintext: RefCell::default(),
            sent: RefCell::new(Some(SendBatch::new())),
        };
        Stream {
            tcp,
            secured: Some(Rc::new(secured)),
        }
    }

    async fn shake_hands(&self) -> Result<(), TlsError> {
        let Some(secured) = &self.secured else {
            return Ok(());
        };
        loop {
            let done = secured.session.borrow_mut().handshake();
            let flushed = self.flush(secured).await;
            if done? {
                return flushed.map_err(|error| TlsError::Network(error.kind()));
            }
            match self.refill(secured).await {
                Ok(0) => return Err(TlsError::Closed),
                Ok(_) => {}
                Err(error) => return Err(TlsError::Network(error.kind())),
            }
        }
    }

    /// Receives some bytes into a range of `buffer`; 0 when the peer has closed.
    pub async fn recv(
        &self,
        mut buffer: Buffer,
        range: Range<usize>,
    ) -> (Buffer, io::Result<usize>) {
        let Some(secured) = &self.secured else {
            return self.tcp.recv(buffer, range).await;
        };
        loop {
            let into = buffer.get_mut(range.clone()).unwrap_or_default();
            let read = secured.session.borrow_mut().read(into);
            match read {
                Ok(Some(count)) => return (buffer, Ok(count)),
                Ok(None) => {}
                Err(error) => return (buffer, Err(error.into())),
            }
            match self.refill(secured).await {
                // Without TLS' own farewell: whoever closed is to be believed no more than that.
                Ok(0) => return (buffer, Ok(0)),
                Ok(_) => {}
                Err(error) => return (buffer, Err(error)),
            }
        }
    }

    /// Fills a range of `buffer`.
    pub async fn recv_exact(
        &self,
        mut buffer: Buffer,
        mut range: Range<usize>,
    ) -> (Buffer, io::Result<()>) {
        if self.secured.is_none() {
            return self.tcp.recv_exact(buffer, range).await;
        }
        while !range.is_empty() {
            let (back, received) = self.recv(buffer, range.clone()).await;
            buffer = back;
            match received {
                Ok(0) => return (buffer, Err(io::ErrorKind::UnexpectedEof.into())),
                Ok(count) => range.start += count,
                Err(error) => return (buffer, Err(error)),
            }
        }
        (buffer, Ok(()))
    }

    /// Sends all of `batch`.
    pub async fn send(&self, batch: SendBatch) -> (SendBatch, io::Result<()>) {
        let Some(secured) = &self.secured else {
            return self.tcp.send(batch).await;
        };
        let encrypted = {
            let mut plaintext = secured.plaintext.borrow_mut();
            plaintext.clear();
            for piece in batch.pieces() {
                plaintext.extend_from_slice(piece);
            }
            secured.session.borrow_mut().write(&plaintext)
        };
        let result = match encrypted {
            Ok(()) => self.flush(secured).await,
            Err(error) => Err(error.into()),
        };
        (batch, result)
    }

    /// Ends the connection in both directions.
    pub fn shutdown(&self) {
        self.tcp.shutdown();
    }

    /// The address on this side.
    pub fn local_address(&self) -> SocketAddr {
        self.tcp.local_address()
    }

    /// Gives what the socket has to the session; 0 when the peer has closed.
    async fn refill(&self, secured: &Secured) -> io::Result<usize> {
        let buffer = secured.received.take();
        let buffer = buffer.unwrap_or_else(|| Buffer::new(RECEIVE_BYTES));
        let (buffer, received) = self.tcp.recv(buffer, 0..RECEIVE_BYTES).await;
        if let Ok(count) = received {
            let bytes = buffer.get(..count).unwrap_or_default();
            secured.session.borrow_mut().receive(bytes);
        }
        secured.received.replace(Some(buffer));
        received
    }

    /// Sends what the session has for the peer.
    async fn flush(&self, secured: &Secured) -> io::Result<()> {
        let mut batch = secured.sent.take().unwrap_or_default();
        {
            let mut session = secured.session.borrow_mut();
            let outgoing = session.outgoing();
            batch.clear();
            batch.push_bytes(outgoing);
            outgoing.clear();
        }
        if batch.is_empty() {
            secured.sent.replace(Some(batch));
            return Ok(());
        }
        let (batch, result) = self.tcp.send(batch).await;
        secured.sent.replace(Some(batch));
        result
    }
}

fn arrived(buffer: &Buffer, received: io::Result<usize>) -> Result<&[u8], TlsError> {
    match received {
        Ok(0) => Err(TlsError::Closed),
        Ok(count) => Ok(buffer.get(..count).unwrap_or_default()),
        Err(error) => Err(TlsError::Network(error.kind())),
    }
}
