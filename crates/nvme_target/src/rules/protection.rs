//! [`Protection`]: whether hosts may write to a namespace (NVMe 2.0 §8.12).

use nvme::Status;
use nvme::feature::ProtectionState;

/// The write protection of a namespace, and who can lift it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protection {
    /// Hosts may write.
    #[default]
    None,
    /// A host has asked for it, and hosts can lift it.
    ByHost,
    /// The node's administrator has asked for it. No host can lift it.
    ByAdministrator,
}

impl Protection {
    /// As the administrator wants it.
    pub fn by_administrator(on: bool) -> Protection {
        match on {
            true => Protection::ByAdministrator,
            false => Protection::None,
        }
    }

    /// What becomes of it where a host wants it so.
    pub(super) fn by_host(self, on: bool) -> Result<Protection, Status> {
        match (self, on) {
            (Protection::ByAdministrator, false) => {
                Err(Status::FEATURE_NOT_CHANGEABLE.do_not_retry())
            }
            (Protection::ByAdministrator, true) => Ok(Protection::ByAdministrator),
            (_, true) => Ok(Protection::ByHost),
            (_, false) => Ok(Protection::None),
        }
    }

    /// As hosts are told of it.
    pub(crate) fn state(self) -> ProtectionState {
        match self {
            Protection::None => ProtectionState::NONE,
            Protection::ByHost | Protection::ByAdministrator => ProtectionState::WRITE_PROTECT,
        }
    }

    /// Whether a host can change it.
    pub(crate) fn is_changeable(self) -> bool {
        self != Protection::ByAdministrator
    }
}
