//! Sizes that volumes cannot have, and refusals for want of space, with what there is and what was
//! asked for.

use api::{ErrorBody, Name, Size};
use node::{NodeError, PoolError};

use crate::control::Control;
use crate::control::words::refused;

/// The smallest volume of a pool, and what all others are a multiple of.
const VOLUME_BYTES_MIN: u64 = 4096;

/// The largest volume of a pool.
const VOLUME_BYTES_MAX: u64 = 4 << 50;

/// Refuses a size that no volume of a pool can have, rounded up to whole blocks or not.
pub(in crate::control) fn check_size(size: Size) -> Result<(), ErrorBody> {
    let possible = VOLUME_BYTES_MIN..=VOLUME_BYTES_MAX;
    if possible.contains(&size.in_blocks().bytes()) {
        return Ok(());
    }
    let message = format!(
        "{} bytes; allowed: 4 KiB to 4 PiB, and what is rounded up to that",
        size.bytes()
    );
    Err(ErrorBody::invalid("size", message))
}

impl Control {
    /// What a client is told when a pool refuses something that takes `asked_bytes` of it, where
    /// that is known before.
    pub(in crate::control) async fn refused_by_pool(
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
        ErrorBody {
            message,
            field: asked_bytes.map(|_| "size".to_owned()),
            ..refusal
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_volumes_are_bounded() {
        for good in [1, 4095, 4096, 4097, 1_000_000_000, VOLUME_BYTES_MAX] {
            assert_eq!(check_size(Size(good)), Ok(()));
        }
        for bad in [0, VOLUME_BYTES_MAX + 1, u64::MAX] {
            let refused = check_size(Size(bad)).unwrap_err();
            assert_eq!(refused.field.as_deref(), Some("size"));
            assert!(
                refused.message.contains(&bad.to_string()),
                "{}",
                refused.message
            );
        }
    }
}
