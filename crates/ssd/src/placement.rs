//! [`Placement`]: which reclaim-unit handle a write goes by (NVMe 2.1, Flexible Data Placement).

use serde::{Deserialize, Serialize};

use crate::flash::Isolation;
use crate::load::Load;

/// Handles that a host writes by, and what the drive does to keep their data apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// Reclaim-unit handles; 1 is a drive without placement.
    pub handles: u8,
    /// How far their data stays apart.
    pub isolation: Isolation,
}

impl Default for Placement {
    fn default() -> Placement {
        Placement {
            handles: 1,
            isolation: Isolation::default(),
        }
    }
}

/// Which pages of a namespace go by which handle: hot data by the first, the rest in equal parts
/// by the others; without hot data all in equal parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts {
    hot_pages: u32,
    rest_pages: u32,
    rest_handles: u32,
    first_of_rest: u8,
}

impl Parts {
    /// The parts of a namespace of `pages`.
    pub(crate) fn new(placement: Placement, load: &Load, pages: u32) -> Parts {
        let apart = placement.handles > 1;
        let hot_pages = match load.hot {
            Some(hot) if apart => hot.pages_of(pages),
            _ => 0,
        };
        let first_of_rest = u8::from(hot_pages > 0);
        Parts {
            hot_pages,
            rest_pages: (pages - hot_pages).max(1),
            rest_handles: u32::from(placement.handles - first_of_rest),
            first_of_rest,
        }
    }

    /// The handle of a page of the namespace.
    #[inline]
    pub(crate) fn handle(&self, page: u32) -> u8 {
        if page < self.hot_pages {
            return 0;
        }
        // A division for each write of every study would cost more than all the rest of it.
        if self.rest_handles == 1 {
            return self.first_of_rest;
        }
        let part = u64::from(page - self.hot_pages) * u64::from(self.rest_handles);
        self.first_of_rest + (part / u64::from(self.rest_pages)) as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Hot;

    #[test]
    fn hot_data_has_a_handle_of_its_own_and_the_rest_equal_parts() {
        let load = Load::new("randwrite", 0, 4096).unwrap();
        let placement = |handles| Placement {
            handles,
            ..Placement::default()
        };
        let hot: Hot = "90/10".parse().unwrap();
        let hot = Load {
            hot: Some(hot),
            ..load
        };
        let handles = |handles: u8, load: &Load| -> Vec<u8> {
            let parts = Parts::new(placement(handles), load, 1000);
            [0, 99, 100, 549, 550, 999]
                .map(|page| parts.handle(page))
                .to_vec()
        };
        assert_eq!(handles(1, &hot), [0; 6]);
        assert_eq!(handles(2, &hot), [0, 0, 1, 1, 1, 1]);
        assert_eq!(handles(3, &hot), [0, 0, 1, 1, 2, 2]);
        assert_eq!(handles(2, &load), [0, 0, 0, 1, 1, 1]);
        assert_eq!(Parts::new(placement(255), &load, 1000).handle(999), 254);
    }
}
