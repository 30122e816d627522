//! What the cores have counted, gathered: one message to each.

use std::rc::Rc;

use crate::core::Core;
use crate::counts::Measures;
use crate::error::NodeError;
use crate::layout::Layout;

impl Layout {
    pub async fn measure(&self) -> Result<Measures, NodeError> {
        let mut measures = Measures::default();
        for index in 0..self.core_count() {
            let work = |core: Rc<Core>| async move { Ok(core.measure()) };
            let part = self.on(index, work).await?;
            measures.cores.push(part.core);
            for counters in &part.namespaces {
                let key = (counters.subsystem_nqn.clone(), counters.nsid);
                measures.volumes.entry(key).or_default().count(counters);
            }
            for (name, counts) in part.drives {
                measures.drives.entry(name).or_default().add(counts);
            }
        }
        Ok(measures)
    }
}
