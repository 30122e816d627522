//! `flashyard volume replicate`, `replications` and `unreplicate`

use std::time::Duration;

use api::{Name, REPLICATION_SECONDS_MAX, Replication, ReplicationSpec, SecretText, Size};
use clap::Args;
use client::{Client, ClientError, Fingerprint, Login};

use crate::connection::{Done, Node};
use crate::login;
use crate::output::{properties, table};
use crate::secret::read_secret;

/// Keep a replica of a volume of a pool up to date on another node, or change how
///
/// A copy begins at once, and then each time. The first has all of the volume, the others what
/// changed. Hosts may use the replica once `volume promote` there has made it a volume. The node
/// keeps the token.
#[derive(Args)]
pub struct Replicate {
    /// The volume
    volume: Name,
    /// Address of the REST API of the node that has the replica, such as https://node-2:4400
    #[arg(long, value_name = "URL")]
    to: String,
    /// The pool of that node that holds the replica
    #[arg(long)]
    pool: Name,
    /// Time from the begin of one copy to that of the next, such as 5min
    #[arg(long, value_name = "TIME", value_parser = every)]
    every: u32,
    /// What the replica is called; else as the volume
    #[arg(long, value_name = "NAME")]
    replica: Option<Name>,
    /// File with a token of that node, for the role operator; - is standard input; else that of
    /// your login there
    #[arg(long, value_name = "FILE", value_parser = read_secret)]
    to_token_file: Option<SecretText>,
    /// SHA-256 of that node's certificate, as the node prints it at its start; else that of your
    /// login there
    #[arg(long, value_name = "DIGITS")]
    fingerprint: Option<Fingerprint>,
    /// Bandwidth limit of a copy in bytes per second, such as 50MB
    #[arg(long, value_name = "SIZE")]
    bandwidth: Option<Size>,
    /// Send data in the clear where that node has no address under TLS
    #[arg(long)]
    in_the_clear: bool,
    /// Name of the replication; else that of the volume
    #[arg(long)]
    name: Option<Name>,
}

/// Whole seconds.
fn every(text: &str) -> Result<u32, String> {
    let time = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    let most = Duration::from_secs(REPLICATION_SECONDS_MAX.into());
    match u32::try_from(time.as_secs()) {
        Ok(seconds) if seconds > 0 && time <= most => Ok(seconds),
        _ => Err("allowed: 1s to 7days".to_owned()),
    }
}

impl Replicate {
    pub fn run(&self, node: &Node) -> Done {
        let name = self.name.as_ref().unwrap_or(&self.volume);
        let set = node.client.set_replication(name, &self.spec()?)?;
        node.output.show(&set, one);
        Ok(())
    }

    fn spec(&self) -> Result<ReplicationSpec, ClientError> {
        let kept = login::find(Some(&self.to), None)?;
        let login = Login {
            token: self.to_token_file.clone().or(kept.token),
            certificate: self.fingerprint.or(kept.certificate),
            ..kept
        };
        // An address that the node could not use is refused as any other is.
        Client::with(&login)?;
        let is_secure = self.to.starts_with("https:");
        let certificate = login.certificate.filter(|_| is_secure);
        Ok(ReplicationSpec {
            volume: self.volume.clone(),
            to: self.to.clone(),
            token: login.token,
            certificate: certificate.map(|it| it.to_string()),
            pool: self.pool.clone(),
            replica: self.replica.clone(),
            every_seconds: self.every,
            bandwidth: self.bandwidth.map(Size::bytes),
            in_the_clear: self.in_the_clear,
        })
    }
}

/// Shows all replications, or one.
pub fn show(node: &Node, name: Option<&Name>) -> Done {
    match name {
        None => {
            let all = node.client.replications()?;
            node.output.show(&all, |all| list(&all.items));
        }
        Some(name) => node.output.show(&node.client.replication(name)?, one),
    }
    Ok(())
}

/// Copies no more.
pub fn remove(node: &Node, name: &Name) -> Done {
    node.client.remove_replication(name)?;
    node.output.say(&format!(
        "replication {name} removed; the replica and the snapshots stay"
    ));
    Ok(())
}

fn lag(replication: &Replication) -> String {
    let lag = replication.standing.lag_seconds;
    lag.map_or("-".to_owned(), |lag| {
        humantime::format_duration(Duration::from_secs(lag)).to_string()
    })
}

fn time(replication: &Replication) -> String {
    let every = Duration::from_secs(replication.every_seconds.into());
    humantime::format_duration(every).to_string()
}

fn known(text: &Option<String>) -> String {
    text.clone().unwrap_or_else(|| "-".to_owned())
}

fn list(replications: &[Replication]) -> String {
    let row = |replication: &Replication| {
        vec![
            replication.name.to_string(),
            replication.volume.to_string(),
            replication.to.clone(),
            time(replication),
            lag(replication),
            replication
                .standing
                .job
                .map_or("-".to_owned(), |job| job.to_string()),
            known(&replication.standing.problem),
        ]
    };
    let header = ["name", "volume", "to", "every", "lag", "job", "problem"];
    table(&header, replications.iter().map(row))
}

fn one(replication: &Replication) -> String {
    let replica = replication.replica.as_ref().unwrap_or(&replication.volume);
    let standing = &replication.standing;
    let bandwidth = replication.bandwidth;
    let bandwidth = bandwidth.map_or("-".to_owned(), |bytes| format!("{}/s", Size(bytes)));
    properties(&[
        ("name", replication.name.to_string()),
        ("volume", replication.volume.to_string()),
        ("to", replication.to.clone()),
        ("certificate", known(&replication.certificate)),
        ("pool", replication.pool.to_string()),
        ("replica", replica.to_string()),
        ("every", time(replication)),
        ("bandwidth limit", bandwidth),
        ("in the clear", replication.in_the_clear.to_string()),
        ("copied", known(&standing.copied)),
        ("lag", lag(replication)),
        (
            "job",
            standing.job.map_or("-".to_owned(), |job| job.to_string()),
        ),
        ("problem", known(&standing.problem)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_between_a_second_and_a_week() {
        for (good, seconds) in [("1s", 1), ("5min", 300), ("5m", 300), ("7days", 604_800)] {
            assert_eq!(every(good), Ok(seconds), "{good}");
        }
        for bad in ["", "0", "0s", "500ms", "5", "8days", "1year", "-1s", "x"] {
            assert!(every(bad).is_err(), "{bad}");
        }
    }
}
