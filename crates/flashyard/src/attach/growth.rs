//! The volume's size while it is attached: its file shows it at once, and the disk grows with it.
//! Write protection is asked for with it.
//!
//! A disk in use never shrinks by itself. A volume shrinks only while no host is connected, as when
//! it was cut off: then the log says so, and what is behind the volume's end fails.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use block::{BlockDevice, Geometry};
use initiator::{Controller, Error, Namespace, State};
use nvme::command::ALL_NAMESPACES;
use nvme::event::AsyncEvent;
use nvme::log::LogPage;
use reactor::{CancelOnDrop, spawn};

use super::file_system::FILE;
use super::{news, protection, tools};

/// Bytes of the Changed Namespace List, which is read so that the next change is told too.
const LIST_BYTES: usize = 4096;

/// Between two questions for the size while the connection is lost.
const AGAIN: Duration = Duration::from_millis(100);

/// Follows the size and the write protection of the volume that is mounted at `mount`, until
/// dropped: by the controller's events, and after every loss of the controller, which tells of
/// nothing meanwhile.
pub fn follow(namespace: &Rc<Namespace>, mount: PathBuf) -> [CancelOnDrop<()>; 2] {
    let mount: Rc<Path> = mount.into();
    let told = after_events(Rc::clone(namespace), Rc::clone(&mount));
    let missed = after_losses(Rc::clone(namespace), mount);
    [spawn(told).cancel_on_drop(), spawn(missed).cancel_on_drop()]
}

async fn after_events(namespace: Rc<Namespace>, mount: Rc<Path>) {
    let controller = namespace.controller().clone();
    while let Some(event) = controller.next_event().await {
        if event == AsyncEvent::NAMESPACE_CHANGED {
            let list = LogPage::CHANGED_NAMESPACES;
            // Fails with the connection, after which the size is asked for anyway.
            drop(
                controller
                    .log_page(list, ALL_NAMESPACES, 0, LIST_BYTES)
                    .await,
            );
            take_changes(&namespace, &mount).await;
        }
    }
}

async fn after_losses(namespace: Rc<Namespace>, mount: Rc<Path>) {
    let controller = namespace.controller().clone();
    loop {
        match controller.state_changed().await {
            State::Live => take_changes(&namespace, &mount).await,
            State::Connecting | State::Failing(_) => {}
            State::Dead(_) => return,
        }
    }
}

/// Asks for the volume's size, and makes the disk larger if it has grown. The disk is read-only
/// while the volume is write protected.
async fn take_changes(namespace: &Namespace, mount: &Path) {
    let (before, was_protected) = (namespace.geometry(), namespace.is_write_protected());
    let now = match refreshed(namespace).await {
        Ok(now) => now,
        Err(error) => return say(format!("asking for the volume's size: {error}")).await,
    };
    let is_protected = namespace.is_write_protected();
    if is_protected != was_protected {
        protect(mount, is_protected).await;
    }
    let (had, has) = (before.capacity_bytes(), now.capacity_bytes());
    if has < had {
        say(format!(
            "the volume shrank from {had} to {has} bytes; the disk keeps its size, and I/O behind \
             the volume's end fails: attach it anew"
        ))
        .await;
    } else if has > had {
        let file = mount.join(FILE);
        let grow = move || tools::grow_loops(&file).map_err(|error| error.to_string());
        say(match reactor::blocking(grow).await {
            Ok(()) => format!("the volume grew from {had} to {has} bytes"),
            Err(error) => format!("the disk does not grow with the volume: {error}"),
        })
        .await;
    }
}

/// Makes the disk read-only, or writable.
async fn protect(mount: &Path, protected: bool) {
    let mount = mount.to_owned();
    let follow = move || {
        let followed = protection::set(&mount, protected).and_then(|()| protection::follow(&mount));
        followed.map_err(|error| error.to_string())
    };
    say(match (reactor::blocking(follow).await, protected) {
        (Ok(()), true) => "the volume is write protected, and the disk read-only".to_owned(),
        (Ok(()), false) => "the volume is write protected no more".to_owned(),
        (Err(error), _) => format!("the disk does not follow the write protection: {error}"),
    })
    .await;
}

async fn say(what: String) {
    news::write(format!("flashyard: {what}")).await;
}

/// The geometry as the controller has it now; a lost connection is waited for.
async fn refreshed(namespace: &Namespace) -> Result<Geometry, Error> {
    let is_dead = |controller: &Controller| matches!(controller.state(), State::Dead(_));
    loop {
        match namespace.refresh().await {
            Err(Error::ConnectionLost(_)) if !is_dead(namespace.controller()) => {
                reactor::sleep(AGAIN).await;
            }
            other => return other,
        }
    }
}
