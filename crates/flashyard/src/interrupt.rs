//! Ctrl-C, for verbs that run load.

use lab::load::Stop;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

/// Makes SIGINT and SIGTERM end the run early and in order; a second one ends the program.
pub fn stop_on_interrupt(stop: &Stop) {
    let stop = stop.clone();
    std::thread::spawn(move || {
        let Ok(runtime) = Builder::new_current_thread().enable_all().build() else {
            return;
        };
        runtime.block_on(async {
            let (Ok(mut interrupt), Ok(mut terminate)) = (
                signal(SignalKind::interrupt()),
                signal(SignalKind::terminate()),
            ) else {
                return;
            };
            for attempt in 0.. {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                if attempt > 0 {
                    std::process::exit(130);
                }
                stop.stop();
            }
        });
    });
}
