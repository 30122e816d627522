//! What the environment may say in place of the command line.

use clap::Command;

/// The command without those variables that are set to nothing: they count as not set.
pub fn without_empty(command: Command) -> Command {
    let command = command.mut_args(|argument| {
        let value = argument.get_env().map(std::env::var_os);
        match value {
            Some(Some(value)) if value.is_empty() => argument.env(None),
            _ => argument,
        }
    });
    command.mut_subcommands(without_empty)
}
