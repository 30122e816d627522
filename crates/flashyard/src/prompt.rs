//! Questions to the person at the terminal.

use std::io::{self, BufRead, IsTerminal};
use std::process::exit;

use api::SecretText;
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::output;

/// Whether somebody can be asked.
pub fn is_possible() -> bool {
    io::stdin().is_terminal()
}

/// Asks for a line.
pub fn ask(question: &str) -> io::Result<String> {
    output::hint(&question);
    Ok(line()?.trim().to_owned())
}

/// Asks for a line that the terminal does not show. However the program ends meanwhile, short of
/// SIGKILL, the terminal shows what is typed again.
pub fn ask_hidden(question: &str) -> io::Result<SecretText> {
    let before = tcgetattr(io::stdin())?;
    restore_when_ended(before.clone())?;
    let mut silent = before.clone();
    silent.local_modes.remove(LocalModes::ECHO);
    // A program that is suspended leaves the terminal to the shell.
    silent.special_codes[SpecialCodeIndex::VSUSP] = 0;
    output::hint(&question);
    tcsetattr(io::stdin(), OptionalActions::Flush, &silent)?;
    let answer = hidden_line();
    tcsetattr(io::stdin(), OptionalActions::Flush, &before)?;
    output::tell(&"");
    answer
}

/// A line of standard input that is a secret, wherever that comes from, with the blanks around it.
pub fn hidden_line() -> io::Result<SecretText> {
    line().map(SecretText::from)
}

fn line() -> io::Result<String> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(line)
}

/// Puts the terminal back and ends the program when a signal asks for its end.
fn restore_when_ended(before: Termios) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let mut signals = Signals::new(&runtime)?;
    std::thread::Builder::new().spawn(move || {
        let number = runtime.block_on(signals.next());
        // A terminal that has gone needs nothing any more.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &before);
        output::tell(&"");
        exit(128 + number);
    })?;
    Ok(())
}

/// The signals that end a program which does not wait for them.
struct Signals {
    hangup: Signal,
    interrupt: Signal,
    quit: Signal,
    terminate: Signal,
}

impl Signals {
    /// From now on they wait to be taken.
    fn new(runtime: &Runtime) -> io::Result<Signals> {
        let _context = runtime.enter();
        Ok(Signals {
            hangup: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// The number of the one that comes first.
    async fn next(&mut self) -> i32 {
        let kind = tokio::select! {
            _ = self.hangup.recv() => SignalKind::hangup(),
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = self.quit.recv() => SignalKind::quit(),
            _ = self.terminate.recv() => SignalKind::terminate(),
        };
        kind.as_raw_value()
    }
}
