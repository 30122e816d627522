//! Tokens: make, show, revoke, recognise; and whose an object is.

use std::path::Path;
use std::time::SystemTime;

use api::{AuditEntry, Caller, ErrorBody, ErrorCode, Name, Role, Severity, Token, TokenSpec};

use crate::control::words::not_found;
use crate::control::{Control, StartError};
use crate::events::timestamp;
use crate::state::Kind;
use crate::tokens::{self, TokenRecord};

/// The token that a node without any makes at its start.
const FIRST_TOKEN: &str = "admin";

impl Control {
    /// Every token, by name.
    pub fn tokens(&self) -> Vec<Token> {
        let tokens = self.tokens.seen();
        let show = |(name, record): (&Name, &TokenRecord)| record.shown(name, None);
        tokens.iter().map(show).collect()
    }

    /// A token, without its secret.
    pub fn token(&self, name: &Name) -> Result<Token, ErrorBody> {
        let tokens = self.tokens.seen();
        let record = tokens.get(name).ok_or_else(|| not_found("token", name))?;
        Ok(record.shown(name, None))
    }

    /// Makes the token `name` be what `spec` says; a new one is given with its secret.
    pub async fn create_token(&self, name: &Name, spec: &TokenSpec) -> Result<Token, ErrorBody> {
        let mut tokens = self.tokens.change().await;
        if let Some(record) = tokens.get(name) {
            if record.is(spec)? {
                return Ok(record.shown(name, None));
            }
            let message = format!("token {name} exists and is different: revoke it first");
            return Err(ErrorBody::new(ErrorCode::AlreadyExists, message));
        }
        let (record, secret) = TokenRecord::new(spec, SystemTime::now())?;
        self.remember(Kind::Token, name, record.clone()).await?;
        let message = format!("made for role {:?}", spec.role).to_lowercase();
        self.events
            .record(Severity::Info, &format!("token/{name}"), &message);
        let shown = record.shown(name, Some(secret));
        tokens.insert(name.clone(), record);
        Ok(shown)
    }

    /// Makes a token worthless from now on. The last admin's stays: nobody could make another.
    pub async fn revoke_token(&self, name: &Name) -> Result<(), ErrorBody> {
        let mut tokens = self.tokens.change().await;
        let record = tokens.get(name).ok_or_else(|| not_found("token", name))?;
        let others = tokens.iter().filter(|(other, _)| *other != name);
        let admins = others.filter(|(other, record)| record.caller(other).role == Role::Admin);
        if record.caller(name).role == Role::Admin && admins.count() == 0 {
            let message = format!("token {name} is the last one with role admin: make another");
            return Err(ErrorBody::new(ErrorCode::InUse, message));
        }
        self.forget(Kind::Token, name).await?;
        tokens.remove(name);
        self.events
            .record(Severity::Info, &format!("token/{name}"), "revoked");
        Ok(())
    }

    /// Who the secret belongs to, if it is good.
    pub fn recognise(&self, secret: &str) -> Option<Caller> {
        let (hash, now) = (tokens::hash(secret), SystemTime::now());
        if let Some(caller) = self.replicating.admits(&hash) {
            return Some(caller);
        }
        let tokens = self.tokens.seen();
        let found = tokens.iter().find(|(_, record)| record.admits(&hash, now));
        found.map(|(name, record)| record.caller(name))
    }

    /// On the first start: makes a token for the admin, whose secret only the node's user can
    /// read. The file is there before the token is, so that a start that is cut short is repeated.
    pub(in crate::control) async fn make_first_token(
        &self,
        directory: &Path,
    ) -> Result<(), StartError> {
        let mut tokens = self.tokens.change().await;
        if !tokens.is_empty() {
            return Ok(());
        }
        let spec = TokenSpec {
            role: Role::Admin,
            tenant: None,
            expires: None,
        };
        let name: Name = FIRST_TOKEN.parse().map_err(StartError::token)?;
        let made = TokenRecord::new(&spec, SystemTime::now());
        let (record, secret) = made.map_err(StartError::token)?;
        tokens::write_admin_token(directory, &secret).map_err(StartError::token)?;
        let remembered = self.remember(Kind::Token, &name, record.clone()).await;
        remembered.map_err(StartError::token)?;
        tokens.insert(name, record);
        Ok(())
    }

    /// Gives the admin's token the secret that somebody with a right to the state directory has put
    /// there, if so: the way back for those who lost theirs.
    pub(in crate::control) async fn take_admin_reset(&self, directory: &Path) {
        match self.admin_reset(directory).await {
            Ok(false) => {}
            Ok(true) => {
                let message = "has a new secret, as was asked for in the state directory";
                let object = format!("token/{FIRST_TOKEN}");
                self.events.record(Severity::Warning, &object, message);
                self.audit(reset_entry()).await;
            }
            Err(problem) => tracing::warn!("the admin's token is not made anew: {problem}"),
        }
    }

    /// Whether there was one.
    async fn admin_reset(&self, directory: &Path) -> Result<bool, String> {
        let in_words = |error: std::io::Error| error.to_string();
        let there = directory.to_owned();
        let asked = on_disk(move || tokens::admin_reset_asked(&there)).await;
        let Some(secret) = asked.map_err(in_words)? else {
            return Ok(false);
        };
        let name: Name = FIRST_TOKEN
            .parse()
            .map_err(|it: api::NameError| it.to_string())?;
        let record = TokenRecord::of_admin(&secret, SystemTime::now());
        let mut tokens = self.tokens.change().await;
        let remembered = self.remember(Kind::Token, &name, record.clone()).await;
        remembered.map_err(|error| error.message)?;
        tokens.insert(name, record);
        drop(tokens);
        let there = directory.to_owned();
        let taken = on_disk(move || tokens::admin_reset_taken(&there)).await;
        taken.map(|()| true).map_err(in_words)
    }

    /// Whether `caller` may know that the volume or host `name` is there. One that is not there
    /// is nobody's secret.
    pub async fn is_visible(&self, caller: &Caller, kind: Kind, name: &Name) -> bool {
        let objects = self.objects.seen();
        let owner = match kind {
            Kind::Volume => objects.volumes.get(name).map(|v| v.record.tenant.as_ref()),
            Kind::Host => objects.hosts.get(name).map(|host| host.tenant.as_ref()),
            _ => None,
        };
        owner.is_none_or(|owner| caller.sees(owner))
    }
}

/// Does something that waits for the disk.
async fn on_disk<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> std::io::Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(std::io::Error::other)?
}

/// What is in the audit log about a new secret of the admin's.
fn reset_entry() -> AuditEntry {
    AuditEntry {
        id: 0,
        time: timestamp(SystemTime::now()),
        token: FIRST_TOKEN.parse().expect("it is a name"),
        from: "the state directory".to_owned(),
        request: "-".to_owned(),
        method: "PUT".to_owned(),
        path: format!("/v1/tokens/{FIRST_TOKEN}"),
        body: None,
        status: 200,
        code: None,
        others: 0,
    }
}
