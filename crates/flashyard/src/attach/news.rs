//! What the serving process says of the node: when it is lost, given up and back. These lines are
//! the attachment's log; how it stands now is in a file beside that. Helper threads write both: I/O
//! does not wait for their disk.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use initiator::{Controller, Namespace, State};

use super::standing::{Condition, Standing};
use crate::output;

/// How long a volume that is not ready is waited for in silence.
const SILENCE: Duration = Duration::from_secs(5);

/// Says what becomes of the controller and the volume, for as long as there is one; the file
/// `standing` says how they stand.
pub async fn tell(controller: Controller, namespace: Namespace, standing: &Path) {
    let mut waits = Waits::No;
    let mut noted = None;
    let mut said = State::Live;
    loop {
        let (found, why) = condition(&controller, &namespace);
        if noted.replace(found) != Some(found) {
            note(found, why, standing.to_owned()).await;
        }
        // It may have changed while the disk took what was said before.
        if controller.state() == said {
            let _ = reactor::timeout(SILENCE, controller.state_changed()).await;
        }
        let state = controller.state();
        if let State::Dead(_) = state {
            return;
        }
        if state != said {
            say(of_controller(state, controller.last_failure())).await;
            said = state;
        }
        let now = Waits::of(&namespace);
        if now != waits && controller.state() == State::Live {
            say(now.words().to_owned()).await;
            waits = now;
        }
    }
}

fn condition(controller: &Controller, namespace: &Namespace) -> (Condition, Option<String>) {
    let state = controller.state();
    match (state, Waits::of(namespace)) {
        (State::Failing(_) | State::Dead(_), _) => {
            let why = of_controller(state, controller.last_failure());
            (Condition::GaveUp, Some(why))
        }
        (State::Connecting, _) => (Condition::Reconnecting, controller.last_failure()),
        (State::Live, Waits::No) => (Condition::Connected, None),
        (State::Live, waits @ Waits::Yes) => (Condition::NotReady, Some(waits.words().to_owned())),
        (State::Live, waits @ Waits::GaveUp) => (Condition::GaveUp, Some(waits.words().to_owned())),
    }
}

async fn note(condition: Condition, why: Option<String>, path: PathBuf) {
    let since = humantime::format_rfc3339_seconds(SystemTime::now());
    let standing = Standing {
        condition,
        since: Some(since.to_string()),
        why,
    };
    let save = move || {
        let saved = standing.save(&path);
        saved.map_err(|error| format!("{}: {error}", path.display()))
    };
    if let Err(problem) = reactor::blocking(save).await {
        say(problem).await;
    }
}

fn of_controller(state: State, failure: Option<String>) -> String {
    let State::Failing(reason) = state else {
        return match state {
            State::Live => "connected again",
            _ => "the connection is lost: I/O waits until it is back, ten minutes at most",
        }
        .to_owned();
    };
    let failure = failure.unwrap_or_default();
    format!(
        "gave up: {reason}; the last attempt to connect: {failure}. I/O fails until an attempt \
         succeeds; there is one every ten seconds. A file system that met errors is to be \
         unmounted and mounted again then"
    )
}

/// Whether I/O waits for the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    No,
    Yes,
    GaveUp,
}

impl Waits {
    fn of(namespace: &Namespace) -> Waits {
        match namespace.unready() {
            Some((_, true)) => Waits::GaveUp,
            Some((waited, false)) if waited >= SILENCE => Waits::Yes,
            _ => Waits::No,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Waits::No => "the volume is ready again",
            Waits::Yes => "the volume is not ready: I/O waits until it is, ten minutes at most",
            Waits::GaveUp => {
                "gave up: the volume was not ready for ten minutes. I/O fails until it is; see \
                 `flashyard status` for what it lacks. A file system that met errors is to be \
                 unmounted and mounted again then"
            }
        }
    }
}

async fn say(what: String) {
    let time = humantime::format_rfc3339_seconds(SystemTime::now());
    write(format!("{time} {what}")).await;
}

/// A line of the log.
pub async fn write(line: String) {
    reactor::blocking(move || output::tell(&line)).await;
}
