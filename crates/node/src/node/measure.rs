//! What the node has counted, by a call to [`Node`].

use crate::counts::Measures;
use crate::error::NodeError;
use crate::node::Node;

impl Node {
    /// What was counted since the node started. Does not wait for control operations.
    pub async fn measure(&self) -> Result<Measures, NodeError> {
        self.run(|layout| async move { layout.measure().await })
            .await
    }
}
