//! [`sizing()`]: how much network a node needs to carry what its drives read.

use serde::Serialize;

use crate::plan::Plan;

/// The network for a number of drives.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct NetworkNeed {
    /// Drives in the node.
    pub drives: u32,
    /// What they read together, in 10^9 bits a second.
    pub drives_gbit_s: f64,
    /// Ports that carry it.
    pub ports: u32,
    /// What these carry, in 10^9 bits a second.
    pub network_gbit_s: f64,
    /// What was published, in 10^9 bits a second.
    pub published_gbit_s: Option<f64>,
}

impl NetworkNeed {
    /// Its row of a table, with numbers as that has them: drives, what they read, ports, network,
    /// and what was published.
    pub fn cells(&self, number: impl Fn(f64) -> String) -> Vec<String> {
        let published = self.published_gbit_s.map(&number);
        vec![
            self.drives.to_string(),
            number(self.drives_gbit_s),
            self.ports.to_string(),
            number(self.network_gbit_s),
            published.unwrap_or_else(|| "-".to_owned()),
        ]
    }
}

/// The table that the plan asks for; empty if it does not.
pub fn sizing(plan: &Plan) -> Vec<NetworkNeed> {
    let Some(sizing) = &plan.sizing else {
        return Vec::new();
    };
    let need = |(index, drives): (usize, &u32)| {
        let drives_gbit_s = f64::from(*drives) * sizing.drive_gb_s * 8.0;
        let ports = (drives_gbit_s / sizing.port_gbit_s).ceil();
        NetworkNeed {
            drives: *drives,
            drives_gbit_s,
            ports: ports as u32,
            network_gbit_s: ports * sizing.port_gbit_s,
            published_gbit_s: sizing.published_gbit_s.get(index).copied(),
        }
    };
    sizing.drives.iter().enumerate().map(need).collect()
}
