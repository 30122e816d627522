//! Credentials: what a host has to prove before it is served, of whatever kind.

use std::collections::BTreeMap;

use api::{ErrorBody, ErrorCode, Name, Severity};
use node::{Node, NodeError, Nqn};
use serde::Serialize;

use crate::control::hosts::nqn_of;
use crate::control::words::not_found;
use crate::control::{Control, Objects, StartError};
use crate::state::Kind;

/// A kind of credential; a host has at most one of each.
pub(in crate::control) trait Credential:
    Clone + PartialEq + Serialize + Send + Sync + 'static
{
    /// As the data path takes it.
    type Usable: Send;

    /// Where it is remembered.
    const KIND: Kind;
    /// What it is called.
    const NAME: &'static str;
    /// What a host with one has to do.
    const DUTY: &'static str;
    /// The command of `flashyard host` that gives it.
    const COMMAND: &'static str;

    /// All there are, by the name of the host.
    fn all(objects: &Objects) -> &BTreeMap<Name, Self>;

    /// The same, to change.
    fn all_mut(objects: &mut Objects) -> &mut BTreeMap<Name, Self>;

    /// One that nobody has.
    fn unknown() -> Self;

    /// More of what the host has to do, for an event.
    fn detail(&self) -> String {
        String::new()
    }

    /// Read from its text.
    ///
    /// # Errors
    /// Which field is wrong, and what is allowed.
    fn usable(&self) -> Result<Self::Usable, ErrorBody>;

    /// Has the data path ask for it; `None`: ask for none.
    fn give(
        node: &Node,
        host: &Nqn,
        credential: Option<Self::Usable>,
    ) -> impl Future<Output = Result<(), NodeError>> + Send;
}

impl Control {
    /// Has a host prove `credential` from now on.
    pub(in crate::control) async fn set_credential<C: Credential>(
        &self,
        host: &Name,
        credential: C,
    ) -> Result<(), ErrorBody> {
        let mut objects = self.objects.change().await;
        self.take_credential(&mut objects, host, credential).await?;
        self.tell_pools_of_credentials(&objects, host).await;
        Ok(())
    }

    pub(in crate::control) async fn take_credential<C: Credential>(
        &self,
        objects: &mut Objects,
        host: &Name,
        credential: C,
    ) -> Result<(), ErrorBody> {
        let nqn = host_nqn(objects, host)?;
        let usable = credential.usable()?;
        if C::all(objects).get(host) == Some(&credential) {
            return Ok(());
        }
        let message = format!("has to {}{}", C::DUTY, credential.detail());
        self.remember(C::KIND, host, credential.clone()).await?;
        C::all_mut(objects).insert(host.clone(), credential);
        self.data_path_asks::<C>(&nqn, Some(usable)).await?;
        self.events
            .record(Severity::Info, &format!("host/{host}"), &message);
        Ok(())
    }

    /// Asks nothing of this kind of a host any more.
    pub(in crate::control) async fn remove_credential<C: Credential>(
        &self,
        host: &Name,
    ) -> Result<(), ErrorBody> {
        let mut objects = self.objects.change().await;
        host_nqn(&objects, host)?;
        if !C::all(&objects).contains_key(host) {
            return Err(none::<C>(host));
        }
        self.drop_credential::<C>(&mut objects, host).await?;
        self.tell_pools_of_credentials(&objects, host).await;
        Ok(())
    }

    /// Forgets a host's credential of this kind, if it has one.
    pub(in crate::control) async fn drop_credential<C: Credential>(
        &self,
        objects: &mut Objects,
        host: &Name,
    ) -> Result<(), ErrorBody> {
        if !C::all(objects).contains_key(host) {
            return Ok(());
        }
        let nqn = host_nqn(objects, host)?;
        self.forget(C::KIND, host).await?;
        C::all_mut(objects).remove(host);
        self.data_path_asks::<C>(&nqn, None).await?;
        let message = format!("need not {} any more", C::DUTY);
        self.events
            .record(Severity::Warning, &format!("host/{host}"), &message);
        Ok(())
    }

    /// Makes every remembered credential count, before anything is served. One that cannot be used
    /// ends the start: its host would be let in without it.
    pub(in crate::control) async fn restore_credentials<C: Credential>(
        &self,
        credentials: BTreeMap<Name, C>,
    ) -> Result<(), StartError> {
        let mut objects = self.objects.change().await;
        for (host, credential) in credentials {
            let unusable = |error: ErrorBody| StartError::Credential {
                kind: C::NAME,
                host: host.clone(),
                reason: error.message,
            };
            let nqn = host_nqn(&objects, &host).map_err(unusable)?;
            let usable = credential.usable().map_err(unusable)?;
            C::give(&self.node, &nqn, Some(usable)).await?;
            C::all_mut(&mut objects).insert(host, credential);
        }
        Ok(())
    }

    async fn data_path_asks<C: Credential>(
        &self,
        nqn: &Nqn,
        usable: Option<C::Usable>,
    ) -> Result<(), ErrorBody> {
        let given = C::give(&self.node, nqn, usable).await;
        given.map_err(|error| ErrorBody::new(ErrorCode::Internal, error.to_string()))
    }
}

/// That a host has no credential of this kind.
pub(in crate::control) fn none<C: Credential>(host: &Name) -> ErrorBody {
    let message = format!("host {host} has no {}", C::NAME);
    ErrorBody::new(ErrorCode::NotFound, message)
}

/// The NQN of a host that exists.
pub(in crate::control) fn host_nqn(objects: &Objects, host: &Name) -> Result<Nqn, ErrorBody> {
    let spec = objects
        .hosts
        .get(host)
        .ok_or_else(|| not_found("host", host))?;
    nqn_of(spec).map_err(|problem| ErrorBody::invalid("nqn", problem))
}
