//! Refusals for want of space, with what there is and what was asked for.

use api::{ErrorBody, Name, Size};
use node::{NodeError, PoolError};

use super::Control;
use super::drives::refused;

impl Control {
    /// What a client is told when a pool refuses something that takes `asked_bytes` of it, where
    /// that is known before.
    pub(super) async fn refused_by_pool(
        &self,
        pool: &Name,
        error: &NodeError,
        asked_bytes: Option<u64>,
    ) -> ErrorBody {
        let refusal = refused(error);
        let no_space = matches!(
            error,
            NodeError::Pool {
                error: PoolError::NoSpace,
                ..
            }
        );
        if !no_space {
            return refusal;
        }
        let Ok(facts) = self.node.pool_seen(pool.as_str()).await else {
            return refusal;
        };
        let status = &facts.status;
        let taken = status.used_bytes.saturating_add(status.reserved_bytes);
        let free = Size(status.usable_bytes.saturating_sub(taken));
        let asked = asked_bytes.map_or(String::new(), |bytes| {
            format!(", and {} was asked for", Size(bytes))
        });
        let message = format!("{}: {free} is free{asked}", refusal.message);
        ErrorBody { message, ..refusal }
    }
}
