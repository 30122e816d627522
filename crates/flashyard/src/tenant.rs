//! `flashyard tenant`

use api::{Name, Tenant};
use clap::Subcommand;

use crate::connection::{Done, Node};
use crate::limit::{Bounds, in_words};
use crate::output::{names, table};

#[derive(Subcommand)]
pub enum Verb {
    /// List tenants that have limits, volumes or hosts
    List,
    /// Limit what a tenant's volumes do together, from now on; what is not named is not limited
    Limit {
        /// The tenant
        name: Name,
        #[command(flatten)]
        limit: Bounds,
    },
}

impl Verb {
    pub fn run(&self, node: &Node) -> Done {
        match self {
            Verb::List => node
                .output
                .show(&node.client.tenants()?, |tenants| list(&tenants.items)),
            Verb::Limit { name, limit } => {
                let tenant = node.client.limit_tenant(name, &limit.limits())?;
                node.output
                    .show(&tenant, |tenant| list(std::slice::from_ref(tenant)));
            }
        }
        Ok(())
    }
}

fn list(tenants: &[Tenant]) -> String {
    let row = |tenant: &Tenant| {
        vec![
            tenant.name.to_string(),
            in_words(&tenant.limits),
            names(&tenant.volumes),
        ]
    };
    table(&["name", "limits", "volumes"], tenants.iter().map(row))
}
