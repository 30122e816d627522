//! [`Client`] and how one request travels.

use std::net::IpAddr;
use std::time::Duration;

use api::{ErrorBody, List, SecretText};
use serde::Serialize;
use serde::de::DeserializeOwned;
use ureq::http::{Response, Uri};
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{Connector, TcpConnector};
use ureq::{Agent, Body, RequestBuilder};

use crate::tls::{self, PinnedTls};
use crate::{ClientError, Fingerprint, Login};

/// Where a node serves its API when nothing else is said.
pub const DEFAULT_NODE: &str = "http://127.0.0.1:4400";

/// Longer than any operation takes on a healthy node, creating a drive file included.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Long enough for a loaded node, short enough for a person.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Larger than a list of ten thousand volumes.
const RESPONSE_BYTES_MAX: u64 = 64 << 20;

/// A node's API under one address. Cheap to clone; clones share connections.
#[derive(Clone)]
pub struct Client {
    agent: Agent,
    url: String,
    authorization: Option<SecretText>,
}

impl Client {
    /// A client of the node at `url`, such as [`DEFAULT_NODE`], that has no token. Connects only
    /// when asked to do something.
    ///
    /// # Errors
    /// [`ClientError::Address`] when `url` is neither `http://HOST:PORT` nor `https://HOST:PORT`.
    pub fn new(url: &str) -> Result<Client, ClientError> {
        Client::with(&Login {
            url: url.to_owned(),
            token: None,
            certificate: None,
        })
    }

    /// A client of the node that `login` names, with its token.
    ///
    /// # Errors
    /// [`ClientError::Address`] as with [`Client::new`], for `https` without a certificate, and for
    /// a token that would cross a network in the clear.
    pub fn with(login: &Login) -> Result<Client, ClientError> {
        let refuse = |reason: &str| ClientError::Address {
            url: login.url.clone(),
            reason: reason.to_owned(),
        };
        let host = check_address(&login.url).map_err(|reason| refuse(&reason))?;
        let secure = login.url.starts_with("https:");
        if login.token.is_some() && !secure && !is_this_machine(&host) {
            return Err(refuse(
                "a token is sent in the clear within this machine only: use https",
            ));
        }
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_global(Some(REQUEST_TIMEOUT))
            .proxy(None)
            .build();
        let agent = match (secure, login.certificate) {
            (false, _) => config.new_agent(),
            (true, None) => return Err(refuse("its certificate is not known: log in first")),
            (true, Some(pinned)) => {
                let tls = PinnedTls::new(pinned).map_err(|error| refuse(&error.to_string()))?;
                let connector = TcpConnector::default().chain(tls);
                Agent::with_parts(config, connector, DefaultResolver::default())
            }
        };
        Ok(Client {
            agent,
            url: login.url.trim_end_matches('/').to_owned(),
            authorization: login
                .token
                .as_ref()
                .map(|token| format!("Bearer {}", token.reveal()).into()),
        })
    }

    /// Asks the node at `https` address `url` for its certificate, without trusting it.
    pub fn certificate_of(url: &str) -> Result<Fingerprint, ClientError> {
        check_address(url).map_err(|reason| ClientError::Address {
            url: url.to_owned(),
            reason,
        })?;
        let authority = url.trim_start_matches("https://").trim_end_matches('/');
        tls::presented_by(authority, CONNECT_TIMEOUT).map_err(|error| ClientError::Unreachable {
            url: url.to_owned(),
            reason: error.to_string(),
        })
    }

    /// The address this client talks to.
    pub fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.read(self.allowed(self.agent.get(self.at(path))).call())
    }

    /// The same, with a query.
    pub(crate) fn get_with<T: DeserializeOwned>(
        &self,
        path: &str,
        query: impl IntoIterator<Item = (&'static str, String)>,
    ) -> Result<T, ClientError> {
        let request = self.allowed(self.agent.get(self.at(path)));
        self.read(request.query_pairs(query).call())
    }

    /// An answer that is text.
    pub(crate) fn text(&self, path: &str) -> Result<String, ClientError> {
        let answer = self.allowed(self.agent.get(self.at(path))).call();
        let mut response = answer.map_err(|error| self.unreachable(&error))?;
        if !response.status().is_success() {
            return Err(self.refusal(response));
        }
        let body = response.body_mut().with_config().limit(RESPONSE_BYTES_MAX);
        body.read_to_string()
            .map_err(|error| self.unreachable(&error))
    }

    /// Every page of a collection.
    pub(crate) fn list<T: DeserializeOwned>(&self, path: &str) -> Result<List<T>, ClientError> {
        self.list_after(path, None)
    }

    /// Every page of a collection after the object `after`.
    pub(crate) fn list_after<T: DeserializeOwned>(
        &self,
        path: &str,
        mut after: Option<String>,
    ) -> Result<List<T>, ClientError> {
        let mut items = Vec::new();
        loop {
            let mut request = self.allowed(self.agent.get(self.at(path)));
            if let Some(after) = &after {
                request = request.query("after", after);
            }
            let page: List<T> = self.read(request.call())?;
            items.extend(page.items);
            after = page.next;
            if after.is_none() {
                return Ok(List { items, next: None });
            }
        }
    }

    /// One page of a collection: at most `limit` objects after `after`.
    pub(crate) fn page<T: DeserializeOwned>(
        &self,
        path: &str,
        after: &str,
        limit: u32,
    ) -> Result<List<T>, ClientError> {
        let request = self.allowed(self.agent.get(self.at(path)));
        let request = request.query("after", after);
        self.read(request.query("limit", limit.to_string()).call())
    }

    pub(crate) fn patch<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        self.read(
            self.allowed(self.agent.patch(self.at(path)))
                .send_json(body),
        )
    }

    pub(crate) fn put<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        self.read(self.allowed(self.agent.put(self.at(path))).send_json(body))
    }

    pub(crate) fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        self.read(self.allowed(self.agent.post(self.at(path))).send_json(body))
    }

    pub(crate) fn post_empty<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.read(self.allowed(self.agent.post(self.at(path))).send_empty())
    }

    /// A command that leaves nothing to show.
    pub(crate) fn command(&self, path: &str) -> Result<(), ClientError> {
        let answer = self.allowed(self.agent.post(self.at(path))).send_empty();
        let response = answer.map_err(|error| self.unreachable(&error))?;
        if response.status().is_success() {
            Ok(())
        } else {
            Err(self.refusal(response))
        }
    }

    pub(crate) fn put_empty<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.read(self.allowed(self.agent.put(self.at(path))).send_empty())
    }

    pub(crate) fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.read(self.allowed(self.agent.delete(self.at(path))).call())
    }

    pub(crate) fn delete_object(&self, path: &str) -> Result<(), ClientError> {
        let request = self.allowed(self.agent.delete(self.at(path)));
        let response = request.call().map_err(|error| self.unreachable(&error))?;
        if response.status().is_success() {
            Ok(())
        } else {
            Err(self.refusal(response))
        }
    }

    fn allowed<T>(&self, request: RequestBuilder<T>) -> RequestBuilder<T> {
        match &self.authorization {
            Some(authorization) => request.header("authorization", authorization.reveal()),
            None => request,
        }
    }

    fn at(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    fn read<T: DeserializeOwned>(
        &self,
        answer: Result<Response<Body>, ureq::Error>,
    ) -> Result<T, ClientError> {
        let mut response = answer.map_err(|error| self.unreachable(&error))?;
        if !response.status().is_success() {
            return Err(self.refusal(response));
        }
        let body = response.body_mut().with_config().limit(RESPONSE_BYTES_MAX);
        // Several times as fast as from a reader, which is asked for each byte.
        let body = body.read_to_vec();
        let read = body.and_then(|body| serde_json::from_slice(&body).map_err(ureq::Error::Json));
        read.map_err(|error| self.unreachable(&error))
    }

    /// What the node said instead of succeeding; an answer without our error shape comes from
    /// something that is not a node.
    fn refusal(&self, mut response: Response<Body>) -> ClientError {
        let status = response.status();
        match response.body_mut().read_json::<ErrorBody>() {
            Ok(body) => ClientError::Refused(body),
            Err(_) => ClientError::Unreachable {
                url: self.url.clone(),
                reason: format!("it answers {status} without an error this client knows"),
            },
        }
    }

    fn unreachable(&self, error: &ureq::Error) -> ClientError {
        let url = self.url.clone();
        let reason = match (error, url.strip_prefix("http://")) {
            (ureq::Error::Protocol(_), Some(rest)) => {
                format!("what answers there is not in HTTP; with TLS it is https://{rest}")
            }
            _ => error.to_string(),
        };
        ClientError::Unreachable { url, reason }
    }
}

/// The host that an address names.
fn check_address(url: &str) -> Result<String, String> {
    let parsed: Uri = url.parse().map_err(|error| format!("{error}"))?;
    match parsed.scheme_str() {
        Some("http" | "https") => {}
        Some(_) => return Err("unknown scheme".into()),
        None => return Err("no scheme".into()),
    }
    if !matches!(parsed.path(), "" | "/") || parsed.query().is_some() {
        return Err("a path after the port".into());
    }
    match parsed.host() {
        None | Some("") => Err("no host".into()),
        Some(host) => Ok(host.to_owned()),
    }
}

/// Whether what is sent to `host` stays within this machine. Of names `localhost` does
/// (RFC 6761 section 6.3); another may be resolved to anything by the time of the request.
fn is_this_machine(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let address = bare.parse::<IpAddr>();
    address.map_or(bare == "localhost", |address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn an_address_is_checked_before_use() {
        for good in [
            "http://127.0.0.1:4400",
            "http://node-1:80/",
            "http://[::1]:4400",
        ] {
            assert!(Client::new(good).is_ok(), "{good} was refused");
        }
        for bad in [
            "",
            "127.0.0.1:4400",
            "ftp://a:1",
            "https://without-a-certificate:1",
            "http://",
            "http://a/b",
            "http://a b",
        ] {
            let refused = Client::new(bad);
            assert!(
                matches!(refused, Err(ClientError::Address { .. })),
                "{bad:?} was taken"
            );
        }
    }

    #[test]
    fn a_token_crosses_no_network_in_the_clear() {
        let with_token = |url: &str| {
            Client::with(&Login {
                url: url.to_owned(),
                token: Some("fy_secret".into()),
                certificate: Some(Fingerprint::of(b"certificate")),
            })
        };
        for good in [
            "http://127.0.0.1:4400",
            "http://127.9.9.9:1",
            "http://localhost:4400/",
            "http://[::1]:4400",
            "https://192.0.2.2:4400",
        ] {
            assert!(with_token(good).is_ok(), "{good} was refused");
        }
        for bad in [
            "http://192.0.2.2:4400",
            "http://node-1:4400",
            "http://[2001:db8::1]:4400",
            "http://localhost.example:4400",
            "http://127.0.0.1.example",
            "HTTP://192.0.2.2",
            "http://127.0.0.1@192.0.2.2:4400",
        ] {
            let Err(ClientError::Address { reason, .. }) = with_token(bad) else {
                panic!("{bad} was taken");
            };
            assert!(!reason.contains("secret"));
        }
    }

    /// A server of TLS answers a request in the clear with an alert.
    #[test]
    fn one_who_asks_a_node_under_tls_in_the_clear_is_told() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut caller, _) = listener.accept().unwrap();
            let mut request = [0; 4];
            caller.read_exact(&mut request).unwrap();
            caller.write_all(&[21, 3, 3, 0, 2, 2, 22]).unwrap();
        });
        let client = Client::new(&format!("http://{address}")).unwrap();
        let error = client.get::<api::Status>("/v1/status").unwrap_err();
        let said = error.to_string();
        assert!(
            said.contains(&format!("with TLS it is https://{address}")),
            "{said}"
        );
        server.join().unwrap();
    }

    #[test]
    fn nobody_listening_is_unreachable() {
        let free = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let client = Client::new(&format!("http://{free}")).unwrap();
        let error = client.get::<api::Status>("/v1/status").unwrap_err();
        assert!(matches!(error, ClientError::Unreachable { .. }), "{error}");
    }
}
