//! Tokens: make, show, revoke, recognise; and whose an object is.

use std::path::Path;
use std::time::SystemTime;

use api::{AuditEntry, Caller, ErrorBody, ErrorCode, Name, Role, Severity, Token, TokenSpec};

use super::{Control, StartError, not_found};
use crate::state::Kind;
use crate::tokens::{self, TokenRecord};

/// The token that a node without any makes at its start.
const FIRST_TOKEN: &str = "admin";

impl Control {
    /// Every token, by name.
    pub async fn tokens(&self) -> Vec<Token> {
        let tokens = self.tokens.lock().await;
        let show = |(name, record): (&Name, &TokenRecord)| record.shown(name, None);
        tokens.iter().map(show).collect()
    }

    /// Makes the token `name` be what `spec` says; a new one is given with its secret.
    pub async fn create_token(&self, name: &Name, spec: &TokenSpec) -> Result<Token, ErrorBody> {
        let mut tokens = self.tokens.lock().await;
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
        let mut tokens = self.tokens.lock().await;
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
    pub async fn recognise(&self, secret: &str) -> Option<Caller> {
        let (hash, now) = (tokens::hash(secret), SystemTime::now());
        let tokens = self.tokens.lock().await;
        let found = tokens.iter().find(|(_, record)| record.admits(&hash, now));
        found.map(|(name, record)| record.caller(name))
    }

    /// On the first start: makes a token for the admin, whose secret only the node's user can
    /// read. The file is there before the token is, so that a start that is cut short is repeated.
    pub(super) async fn make_first_token(&self, directory: &Path) -> Result<(), StartError> {
        let mut tokens = self.tokens.lock().await;
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

    /// Adds to the audit log; durable when it returns.
    pub async fn audit(&self, entry: AuditEntry) -> Result<(), ErrorBody> {
        self.syslog.tell_audit(&entry);
        self.with_state(move |state| state.append_audit(entry))
            .await
    }

    /// At most `count` entries of the audit log after the one with the identifier `after`.
    pub async fn audit_log(&self, after: u64, count: usize) -> Result<Vec<AuditEntry>, ErrorBody> {
        let state = std::sync::Arc::clone(&self.state);
        let read = tokio::task::spawn_blocking(move || state.audit_after(after, count));
        let failed = |error: String| ErrorBody::new(ErrorCode::Internal, error);
        let read = read.await.map_err(|error| failed(error.to_string()))?;
        read.map_err(|error| failed(error.to_string()))
    }
}
