//! What commands write: answers as tables for people or as JSON for programs, and what they say
//! beside. All of it goes through here.
//!
//! A reader that has gone away, such as `head`, has seen enough: that is no failure. A standard
//! output that takes nothing for another reason is one: the command does what it was asked all the
//! same, and ends with 1. Standard error is a courtesy: what it does not take changes nothing.

mod once;
mod standard;

use api::{PortTransport, Status, host_and_port};
use clap::ValueEnum;
use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;

pub use self::standard::{
    hint, is_read, is_terminal, noted, print, put, settled, stream, tell, write,
};

/// How answers are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people
    #[default]
    Table,
    /// For programs
    Json,
}

impl Output {
    /// Shows an answer as itself, or as the text that `people` makes of it.
    pub fn show<T: Serialize>(self, answer: &T, people: impl FnOnce(&T) -> String) {
        print(&self.text(answer, people));
    }

    /// Says that something was done which leaves nothing to show.
    pub fn say(self, done: &str) {
        if self == Output::Table {
            print(done);
        }
    }

    fn text<T: Serialize>(self, answer: &T, people: impl FnOnce(&T) -> String) -> String {
        match self {
            Output::Table => people(answer),
            // Serializing to memory fails only for types that are no JSON; ours are.
            Output::Json => serde_json::to_string_pretty(answer).unwrap_or_default(),
        }
    }
}
/// A table with a header line; columns are as wide as their contents.
pub fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header.iter().map(|word| word.to_uppercase()));
    table.add_rows(
        rows.into_iter()
            .map(|row| row.iter().map(|cell| one_line(cell)).collect::<Vec<_>>()),
    );
    trimmed(&table)
}

/// One thing's properties, one a line.
pub fn properties(rows: &[(&str, String)]) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    table.add_rows(
        rows.iter()
            .map(|(name, value)| vec![(*name).to_owned(), value.clone()]),
    );
    trimmed(&table)
}

/// The text of a cell, which may come from a disk.
fn one_line(cell: &str) -> String {
    api::plain(cell).into_owned()
}

/// Lines without the padding after their last word.
fn trimmed(table: &Table) -> String {
    let lines: Vec<String> = table.lines().map(|line| line.trim().to_owned()).collect();
    lines.join("\n")
}

/// Names in one cell.
pub fn names(names: &[api::Name]) -> String {
    match names {
        [] => "-".to_owned(),
        names => names
            .iter()
            .map(api::Name::as_str)
            .collect::<Vec<_>>()
            .join(","),
    }
}

/// The command that connects a Linux host to the subsystem `nqn`, at each of the node's addresses.
pub fn connect_commands(status: &Status, nqn: &str) -> String {
    let command = |transport: PortTransport, address: &str, tls: bool| {
        let (host, port) = host_and_port(address);
        let (transport, tls) = (transport.word(), if tls { " --tls" } else { "" });
        format!("nvme connect -t {transport} -a {host} -s {port} -n {nqn}{tls}")
    };
    let over_tcp = status.nvme_addresses.iter().map(|address| {
        let tls = status.nvme_tls_addresses.contains(address);
        command(PortTransport::Tcp, address, tls)
    });
    let over_rdma = status.nvme_rdma_addresses.iter();
    let over_rdma = over_rdma.map(|address| command(PortTransport::Rdma, address, false));
    let commands: Vec<String> = over_tcp.chain(over_rdma).collect();
    commands.join("\n")
}

/// The word for a state.
pub fn state(state: api::ObjectState) -> String {
    match state {
        api::ObjectState::Online => "online",
        api::ObjectState::Offline => "OFFLINE",
    }
    .to_owned()
}
