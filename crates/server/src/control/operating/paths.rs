//! What operators make of ports as paths: of each port, and of pools that have a state of their own
//! there.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use api::{ErrorBody, ErrorCode, Name, PathState, Port, PortChange, Severity};
use node::{AnaGroupId, NodeError, TRANSITION};

use crate::control::operating::ports::on_the_data_path;
use crate::control::words::{not_found, refused};
use crate::control::{Control, Objects};
use crate::state::{PathRecord, Paths, state_of};

/// Since when ports, and groups at ports, are between two states.
#[derive(Default)]
pub struct Transitions(Mutex<BTreeMap<(u16, Option<AnaGroupId>), Instant>>);

impl Transitions {
    fn note(&self, id: u16, group: Option<AnaGroupId>, path: Option<PathState>) {
        let mut since = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match path {
            Some(PathState::Change) => since.insert((id, group), Instant::now()),
            _ => since.remove(&(id, group)),
        };
    }

    /// Those that last for longer than `limit`.
    fn due(&self, limit: Duration) -> Vec<(u16, Option<AnaGroupId>)> {
        let since = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let due = since.iter().filter(|(_, since)| since.elapsed() >= limit);
        due.map(|(what, _)| *what).collect()
    }
}

/// One state that somebody asks for.
struct Step {
    /// Without one the port's own.
    pool: Option<(Name, AnaGroupId)>,
    path: Option<PathState>,
}

impl Step {
    fn group(&self) -> Option<AnaGroupId> {
        self.pool.as_ref().map(|(_, group)| *group)
    }

    /// What has changed, if something has.
    fn told(&self, before: &PathRecord, after: &PathRecord) -> Option<String> {
        let (was, is) = (before.state_of(self.group()), after.state_of(self.group()));
        let whom = match &self.pool {
            None => String::new(),
            Some((pool, _)) => format!(" for pool {pool}"),
        };
        (was != is).then(|| format!("{}{whom}, was {}", is.word(), was.word()))
    }
}

/// The steps of a change, in an order in which no pool gets a state that nobody asked for: those
/// that get their own come before the port, and those that lose it after it.
fn steps(objects: &Objects, change: PortChange) -> Result<Vec<Step>, ErrorBody> {
    let of_pool = |(pool, path): (Name, Option<PathState>)| {
        let entry = objects.pools.get(&pool);
        let entry = entry.ok_or_else(|| not_found("pool", &pool))?;
        let pool = Some((pool, entry.record.group()));
        Ok(Step { pool, path })
    };
    if let Some(twice) = change
        .as_port
        .iter()
        .find(|pool| change.pools.contains_key(*pool))
    {
        let message = format!("pool {twice} is in pools too; allowed: one of them");
        return Err(ErrorBody::invalid("as_port", message));
    }
    let own = change.pools.into_iter();
    let own = own.map(|(pool, path)| of_pool((pool, Some(path))));
    let port = change.path.map(|path| Step {
        pool: None,
        path: Some(path),
    });
    let as_port = change.as_port.into_iter();
    let as_port = as_port.map(|pool| of_pool((pool, None)));
    own.chain(port.map(Ok)).chain(as_port).collect()
}

impl Control {
    /// Makes a port a better or a worse path, to all volumes or to those of pools, and remembers
    /// it.
    pub async fn change_port(&self, id: u64, change: PortChange) -> Result<Port, ErrorBody> {
        let mut paths = self.ports.paths.change().await;
        let number = u16::try_from(id).unwrap_or(0);
        let index = usize::from(number).wrapping_sub(1);
        let Some(configured) = self.ports.configured.get(index) else {
            let count = self.ports.configured.len();
            let message = format!("no port {id}; there are ports 1 to {count}");
            return Err(ErrorBody::new(ErrorCode::NotFound, message));
        };
        let steps = steps(&self.objects.seen(), change)?;
        let before = paths.get(&number).cloned();
        let before = before.unwrap_or_else(|| PathRecord::of(configured.listen.to_string()));
        let mut after = before.clone();
        for step in &steps {
            after.set(step.group(), step.path);
        }
        if after != before {
            let mut changed = paths.clone();
            changed.insert(number, after.clone());
            let record = changed.clone();
            self.with_state(move |state| state.put_paths(&record))
                .await?;
            for step in &steps {
                let applied = self.apply(number, step.group(), step.path).await;
                applied.map_err(|error| refused(&error))?;
            }
            *paths = changed;
            for message in steps.iter().filter_map(|step| step.told(&before, &after)) {
                self.tell_port(Severity::Info, number, &message);
            }
        }
        let port = self.port(&paths, number);
        port.ok_or_else(|| ErrorBody::new(ErrorCode::NotFound, format!("no port {id}")))
    }

    /// Has hosts told of a state, now.
    async fn apply(
        &self,
        id: u16,
        group: Option<AnaGroupId>,
        path: Option<PathState>,
    ) -> Result<(), NodeError> {
        let index = usize::from(id).wrapping_sub(1);
        let state = path.map(on_the_data_path);
        match (group, state) {
            (Some(group), state) => self.node.set_group_path_state(index, group, state).await?,
            (None, Some(state)) => self.node.set_path_state(index, state).await?,
            (None, None) => {}
        }
        self.ports.transitions.note(id, group, path);
        Ok(())
    }

    /// Gives the pools that are remembered the states that are. Hosts cannot connect yet.
    pub(in crate::control) async fn restore_paths(&self) -> Result<(), NodeError> {
        let (paths, objects) = (self.ports.paths.seen(), self.objects.seen());
        for entry in objects.pools.values() {
            let group = entry.record.group();
            for (id, record) in paths.iter() {
                if let Some(path) = record.groups.get(&group.number()) {
                    self.apply(*id, Some(group), Some(*path)).await?;
                }
            }
        }
        Ok(())
    }

    /// Forgets the states that a pool has of its own, which goes from here. Nothing of it is served
    /// any more.
    pub(in crate::control) async fn forget_paths(
        &self,
        objects: &Objects,
        pool: &Name,
    ) -> Result<(), ErrorBody> {
        let Some(entry) = objects.pools.get(pool) else {
            return Ok(());
        };
        let group = entry.record.group();
        let mut pools = objects.pools.iter().filter(|(name, _)| *name != pool);
        if pools.any(|(_, other)| other.record.group() == group) {
            return Ok(());
        }
        let mut paths = self.ports.paths.change().await;
        let mut changed = paths.clone();
        for record in changed.values_mut() {
            record.set(Some(group), None);
        }
        if changed == *paths {
            return Ok(());
        }
        let record = changed.clone();
        self.with_state(move |state| state.put_paths(&record))
            .await?;
        for id in paths.keys() {
            let applied = self.apply(*id, Some(group), None).await;
            applied.map_err(|error| refused(&error))?;
        }
        *paths = changed;
        Ok(())
    }

    /// Ends transitions that will have lasted for as long as hosts are told before this is called
    /// again, after `period`.
    pub(in crate::control) async fn end_transitions(&self, period: Duration) {
        for (id, group) in self
            .ports
            .transitions
            .due(TRANSITION.saturating_sub(period))
        {
            let mut paths = self.ports.paths.change().await;
            let ended = PathState::Inaccessible;
            if state_of(&paths, id, group) != PathState::Change
                || self.apply(id, group, Some(ended)).await.is_err()
            {
                continue;
            }
            // What is remembered says so too once it is read again.
            if let Some(record) = paths.get_mut(&id) {
                record.set(group, Some(ended));
            }
            let message = "a change of state was not ended in time: inaccessible";
            self.tell_port(Severity::Warning, id, message);
        }
    }

    /// Pools that have a state of their own at a port.
    pub(in crate::control) fn pools_of(&self, paths: &Paths, id: u16) -> BTreeMap<Name, PathState> {
        let Some(record) = paths.get(&id) else {
            return BTreeMap::new();
        };
        let objects = self.objects.seen();
        let pools = objects.pools.iter();
        let own = pools.filter_map(|(name, entry)| {
            let path = record.groups.get(&entry.record.group().number())?;
            Some((name.clone(), *path))
        });
        own.collect()
    }

    fn tell_port(&self, severity: Severity, id: u16, message: &str) {
        self.events.record(severity, &format!("port/{id}"), message);
    }
}
