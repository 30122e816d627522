//! [`Cluster`]: Cassandra nodes of our own on 127.0.0.1, 127.0.0.2 and so on, from the jars that
//! `make lab-tools` fetches.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::DatabaseError;
use super::cql::Cql;
use crate::load::Stop;
use crate::plan::Cassandra;
use crate::ports::free_port;
use crate::program::{Companion, system, tool};

/// Longer than a node takes to start on a busy machine of two processors.
const STARTS: Duration = Duration::from_secs(240);

/// Longer than it takes until all nodes know a table.
const AGREES: Duration = Duration::from_secs(60);
const ASKS_AGAIN: Duration = Duration::from_millis(200);

/// What a node says once it serves clients.
const SERVES: &str = "Startup complete";

/// Packages of the Java library that Cassandra reaches into, as its own options for Java 11 name
/// them, and for Java 17 those that were still open before.
const EXPORTS: [&str; 6] = [
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
];
const OPENS: [&str; 15] = [
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.lang.module",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/jdk.internal.util.jar",
    "java.base/sun.nio.ch",
    "jdk.management/com.sun.management.internal",
];

/// What it logs, and where: the standard output, which goes to the node's log.
const LOGGING: &str = "<configuration><appender name=\"OUT\" \
    class=\"ch.qos.logback.core.ConsoleAppender\"><encoder><pattern>%level %msg%n%xEx{short}\
    </pattern></encoder></appender><root level=\"INFO\"><appender-ref ref=\"OUT\"/></root>\
    </configuration>";

/// The running nodes; killed when dropped.
pub(super) struct Cluster {
    nodes: Vec<Companion>,
    port: u16,
}

/// Where the jars are.
fn jars() -> Result<PathBuf, DatabaseError> {
    let place = tool("cassandra");
    if place.is_absolute() {
        Ok(place)
    } else {
        Err(DatabaseError::NoCassandra)
    }
}

/// The jar whose name begins with `name`, of whichever version.
fn jar(name: &str) -> Result<PathBuf, DatabaseError> {
    let place = jars()?;
    let doing = place.display().to_string();
    let files = std::fs::read_dir(place).map_err(system(doing))?;
    let named = |path: &PathBuf| {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        file.strip_prefix(name)
            .is_some_and(|rest| rest.starts_with('-'))
    };
    let mut found = files.flatten().map(|entry| entry.path()).filter(named);
    found.next().ok_or(DatabaseError::NoCassandra)
}

/// What Cassandra's jar says it is.
pub(super) fn version() -> Result<String, DatabaseError> {
    let path = jar("cassandra-all")?;
    Ok(path
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned())
}

fn address(index: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, index as u8 + 1)
}

impl Cluster {
    /// Starts a node on each of `data`, the first one first; `None` when stopped.
    pub(super) fn start(
        data: &[PathBuf],
        work: &Path,
        tuning: &Cassandra,
        stop: &Stop,
    ) -> Result<Option<Cluster>, DatabaseError> {
        let addresses: Vec<Ipv4Addr> = (0..data.len()).map(address).collect();
        let listening: Vec<IpAddr> = addresses.iter().copied().map(IpAddr::V4).collect();
        let free = || free_port(&listening).map_err(system("looking for a free port"));
        let (port, storage_port) = (free()?, free()?);
        let mut cluster = Cluster {
            nodes: Vec::new(),
            port,
        };
        for (index, place) in data.iter().enumerate() {
            let own = work.join(format!("node-{index}"));
            let write = |name: &str, text: String| {
                let path = own.join(name);
                std::fs::write(&path, text).map_err(system(path.display().to_string()))
            };
            std::fs::create_dir(&own).map_err(system(own.display().to_string()))?;
            let ports = (port, storage_port);
            write("cassandra.yaml", settings(index, data.len(), place, ports))?;
            write("logback.xml", LOGGING.to_owned())?;
            let mut command = command(&own, place, tuning.heap)?;
            let mut node = Companion::start(&mut command, own.join("log"))?;
            // The others find the cluster by the first.
            if !node.wait_until(stop, STARTS, |said| said.contains(SERVES))? {
                return Ok(None);
            }
            cluster.nodes.push(node);
        }
        Ok(Some(cluster))
    }

    /// Each node's name and number.
    pub(super) fn processes(&self) -> impl Iterator<Item = (String, u32)> {
        let nodes = self.nodes.iter().enumerate();
        nodes.map(|(index, node)| (format!("cassandra {}", index + 1), node.pid()))
    }

    /// Where clients find the nodes.
    pub(super) fn addresses(&self) -> String {
        let nodes = 0..self.nodes.len();
        let nodes = nodes.map(|index| format!("{}:{}", address(index), self.port));
        nodes.collect::<Vec<_>>().join(",")
    }

    pub(super) fn connect(&self, node: usize) -> Result<Cql, DatabaseError> {
        Cql::connect(SocketAddr::from((address(node), self.port)))
    }

    /// Waits until every node can count a table. Until then some of them do not know it yet, or
    /// take others for dead.
    pub(super) fn wait_until_all_answer(&self, count: &str) -> Result<(), DatabaseError> {
        let begun = Instant::now();
        for node in 0..self.nodes.len() {
            while let Err(error) = self.connect(node)?.number(count) {
                if begun.elapsed() > AGREES {
                    return Err(error);
                }
                std::thread::sleep(ASKS_AGAIN);
            }
        }
        Ok(())
    }
}

/// The node's settings; tokens divide the ring evenly. No node leaves: one that says nothing for a
/// while waits for a processor, or for a drive slowed down three hundred times, for which a minute
/// is a fifth of a second. It is not to be taken for dead sooner than must be.
fn settings(index: usize, nodes: usize, place: &Path, ports: (u16, u16)) -> String {
    let (port, storage_port) = ports;
    let place = place.display();
    let own = address(index);
    let step = (1_i128 << 64) / nodes as i128;
    let token = i128::from(i64::MIN) + step * index as i128;
    format!(
        "cluster_name: lab
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
num_tokens: 1
initial_token: {token}
auto_bootstrap: false
auto_snapshot: false
endpoint_snitch: SimpleSnitch
listen_address: {own}
rpc_address: {own}
storage_port: {storage_port}
native_transport_port: {port}
data_file_directories: [{place}/data]
commitlog_directory: {place}/commitlog
saved_caches_directory: {place}/saved_caches
hints_directory: {place}/hints
commitlog_sync: periodic
commitlog_sync_period: 1000ms
commitlog_segment_size: 8MiB
commitlog_total_space: 64MiB
memtable_heap_space: 32MiB
memtable_offheap_space: 32MiB
file_cache_size: 32MiB
key_cache_size: 8MiB
write_request_timeout: 1200s
read_request_timeout: 1200s
range_request_timeout: 1200s
phi_convict_threshold: 16
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters:
      - seeds: {}
",
        address(0)
    )
}

fn command(own: &Path, place: &Path, heap: u64) -> Result<Command, DatabaseError> {
    let mut command = Command::new("java");
    for package in EXPORTS {
        command
            .arg("--add-exports")
            .arg(format!("{package}=ALL-UNNAMED"));
    }
    for package in OPENS {
        command
            .arg("--add-opens")
            .arg(format!("{package}=ALL-UNNAMED"));
    }
    let megabytes = heap >> 20;
    let url = |name: &str| format!("file://{}", own.join(name).display());
    command.args(["-Djdk.attach.allowAttachSelf=true", "-XX:+UseSerialGC"]);
    // It measures what objects take.
    command.arg(format!("-javaagent:{}", jar("jamm")?.display()));
    command.args([format!("-Xms{megabytes}m"), format!("-Xmx{megabytes}m")]);
    command.arg(format!("-Dcassandra.config={}", url("cassandra.yaml")));
    command.arg(format!(
        "-Dlogback.configurationFile={}",
        url("logback.xml")
    ));
    command.arg(format!("-Dcassandra.storagedir={}", place.display()));
    // Nobody else joins this ring: there is nothing to wait for.
    command.args([
        "-Dcassandra.ring_delay_ms=500",
        "-Dcassandra.skip_wait_for_gossip_to_settle=0",
        "-Dcassandra-foreground=yes",
    ]);
    command.arg("-cp").arg(format!("{}/*", jars()?.display()));
    command
        .arg("org.apache.cassandra.service.CassandraDaemon")
        .current_dir(own);
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_divide_the_ring_evenly() {
        let text = |index| settings(index, 3, Path::new("/data"), (9042, 7000));
        assert!(text(0).contains("initial_token: -9223372036854775808"));
        assert!(text(1).contains("initial_token: -3074457345618258603"));
        assert!(text(2).contains("initial_token: 3074457345618258602"));
        assert!(text(2).contains("listen_address: 127.0.0.3"));
    }
}
