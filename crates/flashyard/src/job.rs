//! `flashyard job`, and following one to its end.

use std::time::Duration;

use api::{ErrorBody, ErrorCode, Job, JobKind, JobState};
use clap::{Args, Subcommand};
use client::ClientError;

use crate::connection::{Done, Node};
use crate::output::table;

/// How often a job is asked about.
const POLL_PERIOD: Duration = Duration::from_millis(200);

#[derive(Subcommand)]
pub enum Verb {
    /// List jobs, running and recent
    List,
    /// Show one job
    Show {
        /// Its number
        id: u64,
    },
}

/// Whether to wait.
#[derive(Args, Clone, Copy)]
pub struct Patience {
    /// Wait until it has ended
    #[arg(long)]
    wait: bool,
}

impl Verb {
    pub fn run(&self, node: &Node) -> Done {
        match self {
            Verb::List => node
                .output
                .show(&node.client.jobs()?, |jobs| list(&jobs.items)),
            Verb::Show { id } => node.output.show(&node.client.job(*id)?, |job| {
                list(std::slice::from_ref(job))
            }),
        }
        Ok(())
    }
}

impl Patience {
    /// Shows a job that began, once it has ended if that is asked for.
    pub fn follow(self, node: &Node, mut job: Job) -> Done {
        while self.wait && job.state == JobState::Running {
            std::thread::sleep(POLL_PERIOD);
            job = node.client.job(job.id)?;
        }
        if job.state == JobState::Failed {
            let message = job.message.unwrap_or_default();
            let message = format!("{}: {message}", job.object);
            return Err(ClientError::Refused(ErrorBody::new(
                ErrorCode::Internal,
                message,
            )));
        }
        node.output
            .show(&job, |job| list(std::slice::from_ref(job)));
        Ok(())
    }
}

fn list(jobs: &[Job]) -> String {
    let row = |job: &Job| {
        vec![
            job.id.to_string(),
            kind(job.kind).to_owned(),
            job.object.clone(),
            match job.state {
                JobState::Running => format!("{}%", job.percent),
                JobState::Done => "done".to_owned(),
                JobState::Failed => "FAILED".to_owned(),
            },
            job.started.clone(),
            job.message.clone().unwrap_or_else(|| "-".into()),
        ]
    };
    let header = ["job", "kind", "object", "state", "started", "message"];
    table(&header, jobs.iter().map(row))
}

fn kind(kind: JobKind) -> &'static str {
    match kind {
        JobKind::Scrub => "scrub",
        JobKind::RemoveDrive => "remove-drive",
        JobKind::Rebuild => "rebuild",
        JobKind::Rebalance => "rebalance",
        JobKind::Replicate => "replicate",
    }
}
