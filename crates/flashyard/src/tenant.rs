//! `flashyard tenant`

use api::{Grant, Name, PoolGrant, Size, Tenant};
use clap::Subcommand;

use crate::connection::{Done, Node};
use crate::limit::{Bounds, in_words};
use crate::output::{names, table};

#[derive(Subcommand)]
pub enum Verb {
    /// List tenants that have limits, grants, volumes or hosts
    List,
    /// Show one tenant: its grants and their use
    Show {
        /// The tenant
        name: Name,
    },
    /// Set the IOPS and bandwidth limits of a tenant's volumes together; others are removed
    Limit {
        /// The tenant
        name: Name,
        #[command(flatten)]
        limit: Bounds,
    },
    /// Let a tenant's operators make volumes and snapshots in a pool
    Grant {
        /// The tenant
        name: Name,
        /// The pool
        pool: Name,
        /// Size of all volumes and snapshots, each counted whole
        #[arg(long)]
        size: Size,
        /// How many volumes
        #[arg(long, default_value_t = Grant::of(Size(0)).volumes)]
        volumes: u32,
        /// How many snapshots of them
        #[arg(long, default_value_t = Grant::of(Size(0)).snapshots)]
        snapshots: u32,
    },
    /// Take a grant back; existing volumes and snapshots stay
    Revoke {
        /// The tenant
        name: Name,
        /// The pool
        pool: Name,
    },
}

impl Verb {
    pub fn run(&self, node: &Node) -> Done {
        let client = &node.client;
        let one = |tenant: &Tenant| list(std::slice::from_ref(tenant));
        match self {
            Verb::List => node
                .output
                .show(&client.tenants()?, |tenants| list(&tenants.items)),
            Verb::Show { name } => node.output.show(&client.tenant(name)?, one),
            Verb::Limit { name, limit } => {
                let tenant = client.limit_tenant(name, &limit.limits())?;
                node.output.show(&tenant, one);
            }
            Verb::Grant {
                name,
                pool,
                size,
                volumes,
                snapshots,
            } => {
                let grant = Grant {
                    size: *size,
                    volumes: *volumes,
                    snapshots: *snapshots,
                };
                let tenant = client.grant_pool(name, pool, &grant)?;
                node.output.show(&tenant, one);
            }
            Verb::Revoke { name, pool } => {
                client.revoke_pool(name, pool)?;
                let said = format!("tenant {name} may make nothing in pool {pool}");
                node.output.say(&said);
            }
        }
        Ok(())
    }
}

fn list(tenants: &[Tenant]) -> String {
    let row = |tenant: &Tenant| {
        let grants: Vec<String> = tenant.grants.iter().map(granted).collect();
        vec![
            tenant.name.to_string(),
            in_words(&tenant.limits),
            match grants.as_slice() {
                [] => "none".to_owned(),
                grants => grants.join("; "),
            },
            names(&tenant.volumes),
        ]
    };
    let header = ["name", "limits", "granted", "volumes"];
    table(&header, tenants.iter().map(row))
}

/// A grant, and what there is of it where that is known.
fn granted(of: &PoolGrant) -> String {
    let of_most = |used: Option<String>, most: String| match used {
        Some(used) => format!("{used} of {most}"),
        None => most,
    };
    let (grant, used) = (&of.grant, of.used);
    let bytes = used.map(|used| Size(used.bytes).to_string());
    let volumes = used.map(|used| used.volumes.to_string());
    let snapshots = used.map(|used| used.snapshots.to_string());
    format!(
        "pool {}: {}, {} volumes, {} snapshots",
        of.pool,
        of_most(bytes, grant.size.to_string()),
        of_most(volumes, grant.volumes.to_string()),
        of_most(snapshots, grant.snapshots.to_string())
    )
}
