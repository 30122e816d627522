//! PostgreSQL on a volume of a raid6 pool, round after round: pgbench and a ledger of acknowledged
//! commits, while the node dies, everything dies, clones of snapshots are opened and checked, and
//! the volume is taken back to snapshots.

use std::process::{Child, Stdio};
use std::time::Duration;

use sim::Random;

use super::database::{Bench, Ledger, roll_back};
use super::postgres::{Postgres, run};
use super::raid6::make_pool;
use super::support::Node;
use super::{random, setting};

/// Rows of pgbench's accounts, in hundred thousands.
const SCALE: &str = "5";

/// That pgbench's four tables tell of the same payments.
const BALANCED: &str = "select
    (select coalesce(sum(delta), 0) from pgbench_history) =
        (select sum(abalance) from pgbench_accounts)
    and (select sum(abalance) from pgbench_accounts) =
        (select sum(tbalance) from pgbench_tellers)
    and (select sum(tbalance) from pgbench_tellers) =
        (select sum(bbalance) from pgbench_branches)";

/// The event of a round.
#[derive(Clone, Copy, Debug)]
enum Round {
    NodeDies,
    EverythingDies,
    Clone,
    Rollback,
}

const ROUNDS: [Round; 4] = [
    Round::NodeDies,
    Round::EverythingDies,
    Round::Clone,
    Round::Rollback,
];

/// The database, and what is known of it.
struct World {
    node: Node,
    /// None for a moment, while it is opened again.
    bench: Option<Bench<Postgres>>,
    /// The last number of the ledger.
    last: u64,
    random: Random,
}

/// Both loads.
struct Load {
    ledger: Ledger,
    pgbench: Child,
}

impl Load {
    fn wait(&self, random: &Random) {
        self.ledger.wait_for(50);
        std::thread::sleep(Duration::from_millis(random.below(3000)));
    }

    /// Gives the last number that was acknowledged.
    fn end(mut self) -> u64 {
        // It may have ended with the server.
        let _ = self.pgbench.kill();
        self.pgbench.wait().unwrap();
        self.ledger.end()
    }
}

impl World {
    fn new() -> World {
        let node = Node::configured("");
        make_pool(&node, 6, "2GiB", &[]);
        let create = ["volume", "create", "data", "--pool", "pool"];
        node.answer(&[&create[..], &["--size", "2GiB", "--allow", "any"]].concat());
        let bench = Bench::<Postgres>::make(&node, "data");
        let mut make = Postgres::client_program("pgbench", bench.place());
        make.args(["--initialize", "--quiet", "--scale", SCALE, "postgres"]);
        run(make);
        let ledger = Ledger::start(&bench, 0);
        ledger.wait_for(10);
        let last = ledger.end();
        World {
            last: bench.holds(last, last + 1),
            node,
            bench: Some(bench),
            random: random(),
        }
    }

    fn bench(&mut self) -> &mut Bench<Postgres> {
        self.bench.as_mut().unwrap()
    }

    fn load(&mut self) -> Load {
        let last = self.last;
        let bench = self.bench();
        let mut pgbench = Postgres::client_program("pgbench", bench.place());
        // Its history stays.
        pgbench.args(["--no-vacuum", "--client=4", "--time=600", "postgres"]);
        pgbench.stdout(Stdio::null()).stderr(Stdio::null());
        let pgbench = pgbench.spawn().unwrap();
        let ledger = Ledger::start(bench, last);
        Load { ledger, pgbench }
    }

    fn round(&mut self, round: Round) {
        let load = self.load();
        load.wait(&self.random);
        match round {
            Round::NodeDies => {
                self.node.kill();
                std::thread::sleep(Duration::from_millis(self.random.below(3000)));
                self.node.start();
                load.wait(&self.random);
                self.settled(load);
            }
            Round::EverythingDies => self.everything_dies(load),
            Round::Clone => self.clone_is_opened(load),
            Round::Rollback => self.rolled_back(load),
        }
    }

    /// Ends the load, and looks at the database.
    fn settled(&mut self, load: Load) {
        let acknowledged = load.end();
        self.holds(acknowledged, acknowledged + 1);
    }

    fn holds(&mut self, acknowledged: u64, asked: u64) {
        self.last = sound(self.bench(), acknowledged, asked);
    }

    fn everything_dies(&mut self, load: Load) {
        // Either first: in the middle of what the other then still does, or not.
        match self.random.below(2) {
            0 => {
                self.node.kill();
                self.bench().kill();
            }
            _ => {
                self.bench().kill();
                self.node.kill();
            }
        }
        let acknowledged = load.end();
        self.node.start();
        let World { node, bench, .. } = self;
        bench.as_mut().unwrap().recover(node);
        self.holds(acknowledged, acknowledged + 1);
    }

    /// A snapshot under load; gives what it has at least, and at most.
    fn snapshot(&mut self, load: &Load) -> (u64, u64) {
        let before = load.ledger.acknowledged();
        self.node.answer(&["volume", "snapshot", "data", "s"]);
        let asked = self.bench().last() + 1;
        load.wait(&self.random);
        (before, asked)
    }

    fn clone_is_opened(&mut self, load: Load) {
        let (before, asked) = self.snapshot(&load);
        let clone = ["volume", "clone", "s", "copy", "--allow", "any"];
        self.node.answer(&clone);
        let copy = Bench::<Postgres>::open(&self.node, "copy");
        sound(&copy, before, asked);
        copy.close();
        self.settled(load);
        self.node.answer(&["volume", "delete", "copy"]);
        self.node.answer(&["snapshot", "delete", "s"]);
    }

    fn rolled_back(&mut self, load: Load) {
        let (before, asked) = self.snapshot(&load);
        self.settled(load);
        self.bench.take().unwrap().close();
        roll_back(&self.node, "data", "s");
        self.bench = Some(Bench::open(&self.node, "data"));
        self.holds(before, asked);
        self.node.answer(&["snapshot", "delete", "s"]);
    }
}

/// That the ledger and pgbench's tables are whole; gives the ledger's last number.
fn sound(bench: &Bench<Postgres>, acknowledged: u64, asked: u64) -> u64 {
    assert_eq!(bench.query(BALANCED).trim(), "t");
    bench.holds(acknowledged, asked)
}

#[test]
fn keeps_what_it_acknowledged_through_kills_clones_and_rollbacks() {
    let mut world = World::new();
    let rounds: u32 = setting("POSTGRES_ROUNDS", 60);
    for number in 0..rounds {
        let which = world.random.below(ROUNDS.len() as u64) as usize;
        println!(
            "round {number}: {:?}, {} commits",
            ROUNDS[which], world.last
        );
        world.round(ROUNDS[which]);
    }
    world.bench.take().unwrap().close();
    world.node.answer(&["pool", "scrub", "pool", "--wait"]);
}
