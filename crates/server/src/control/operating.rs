//! The node itself, as operators see it: its settings, ports, figures, problems, tokens and audit.

pub(super) mod announcing;
pub(super) mod audit;
pub(super) mod figures;
pub(super) mod history;
pub(super) mod paths;
pub(super) mod ports;
pub(super) mod problems;
pub(super) mod retry;
pub(super) mod settings;
pub(super) mod status;
pub(super) mod tokens;
