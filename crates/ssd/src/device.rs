//! [`Device`]: a drive that can be used: flash, timing, namespaces and health in one.

use serde::{Deserialize, Serialize};

use crate::error::ProfileError;
use crate::flash::{Cleaned, Flash, FlashCounters, Isolation};
use crate::health::{EnduranceLog, Health, Traffic};
use crate::namespaces::{Capacity, Namespace, NamespaceError, NamespaceRequest, Namespaces};
use crate::precondition::Precondition;
use crate::profile::{PAGE_BYTES, Profile};
use crate::timeline::Timeline;

/// Namespaces are sized in this many bytes of the unscaled drive.
const GRANULARITY_BYTES: f64 = 1_073_741_824.0;

/// How a device is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceOptions {
    /// FDP placement handles; 1 is a drive without FDP.
    pub handles: u8,
    /// How their data is kept apart.
    pub isolation: Isolation,
}

impl Default for DeviceOptions {
    fn default() -> DeviceOptions {
        DeviceOptions {
            handles: 1,
            isolation: Isolation::Initially,
        }
    }
}

/// What a device has to keep through a restart; the map is laid out anew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceState {
    namespaces: Namespaces,
    traffic: Traffic,
    flash: FlashCounters,
}

/// What a device counts over its life: small, and to be kept often.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceCounters {
    traffic: Traffic,
    flash: FlashCounters,
}

/// A run of pages of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRange {
    /// First page.
    pub first: u64,
    /// How many.
    pub count: u64,
}

/// A drive in use. Times are nanoseconds of the drive's own clock; requests are given in the
/// order they arrive.
#[derive(Clone, Debug)]
pub struct Device {
    profile: Profile,
    scale: f64,
    flash: Flash,
    timeline: Timeline,
    namespaces: Namespaces,
    traffic: Traffic,
    /// Flash work from before this run.
    earlier: FlashCounters,
}

impl Device {
    /// An erased drive of `scale` times the profile's capacity, without namespaces.
    pub fn new(
        profile: &Profile,
        scale: f64,
        options: DeviceOptions,
    ) -> Result<Device, ProfileError> {
        profile.validate()?;
        let geometry = profile.geometry(scale)?;
        let flash =
            Flash::with_handles(geometry, options.handles, options.isolation).map_err(|error| {
                ProfileError::Scale {
                    scale,
                    reason: error.to_string(),
                }
            })?;
        let granule = (GRANULARITY_BYTES * scale / PAGE_BYTES as f64)
            .round()
            .max(1.0) as u32;
        Ok(Device {
            timeline: Timeline::new(profile, geometry.pages_per_superblock),
            namespaces: Namespaces::new(geometry.logical_pages, granule),
            traffic: Traffic::default(),
            earlier: FlashCounters::default(),
            profile: profile.clone(),
            scale,
            flash,
        })
    }

    /// The profile it was made from.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Its capacity as a share of the profile's.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// The namespaces and their controllers.
    pub fn namespaces(&self) -> &Namespaces {
        &self.namespaces
    }

    /// The same, to attach, detach, open and close.
    pub fn namespaces_mut(&mut self) -> &mut Namespaces {
        &mut self.namespaces
    }

    /// Capacity in all, and unallocated.
    pub fn capacity(&self) -> Capacity {
        self.namespaces.capacity()
    }

    /// Creates a namespace.
    pub fn create(&mut self, request: NamespaceRequest) -> Result<u32, NamespaceError> {
        self.namespaces.create(request)
    }

    /// Deletes a namespace: all its data is deallocated, and its space is spare again.
    pub fn delete(&mut self, nsid: u32) -> Result<Namespace, NamespaceError> {
        let namespace = self.namespaces.delete(nsid)?;
        for page in self.namespaces.pages_of(&namespace) {
            self.flash.deallocate(page);
        }
        Ok(namespace)
    }

    /// Puts the flash into a state, with every page of every namespace mapped.
    pub fn precondition(&mut self, how: Precondition, seed: u64) {
        let mut live = Vec::new();
        for (nsid, namespace) in self.namespaces.iter() {
            if let Ok(pages) = self.namespaces.pages(nsid, 0, namespace.pages) {
                live.extend(pages);
            }
        }
        self.flash.erase_all();
        how.apply(&mut self.flash, &live, seed);
    }

    /// A read of `range` arrives; returns when it completes. Pages without data cost no flash.
    pub fn read(&mut self, at_ns: u64, nsid: u32, range: PageRange) -> Result<u64, NamespaceError> {
        let pages = self.namespaces.pages(nsid, range.first, range.count)?;
        let flash = &self.flash;
        let physical = pages.filter_map(|page| flash.lookup(page));
        let count = u32::try_from(range.count).unwrap_or(u32::MAX);
        self.traffic.read(range.count);
        Ok(self.timeline.read(at_ns, count, physical))
    }

    /// A write of `range` with placement handle `handle` arrives; returns when it is
    /// acknowledged.
    pub fn write(
        &mut self,
        at_ns: u64,
        nsid: u32,
        range: PageRange,
        handle: u8,
    ) -> Result<u64, NamespaceError> {
        let mut cleaned = Cleaned::default();
        for page in self.namespaces.pages(nsid, range.first, range.count)? {
            let step = self.flash.write_placed(page, handle);
            cleaned.copied += step.copied;
            cleaned.erased += step.erased;
        }
        self.traffic.write(range.count);
        let count = u32::try_from(range.count).unwrap_or(u32::MAX);
        Ok(self.timeline.write(at_ns, count, cleaned))
    }

    /// A deallocate of `range` arrives; returns when it completes.
    pub fn deallocate(
        &mut self,
        at_ns: u64,
        nsid: u32,
        range: PageRange,
    ) -> Result<u64, NamespaceError> {
        for page in self.namespaces.pages(nsid, range.first, range.count)? {
            self.flash.deallocate(page);
        }
        Ok(self.timeline.command(at_ns))
    }

    /// A flush arrives; returns when it completes. The buffer is power-protected: it only passes
    /// the controller.
    pub fn flush(&mut self, at_ns: u64) -> u64 {
        self.timeline.command(at_ns)
    }

    /// Share of `nsid` that holds data, 0 to 1.
    pub fn mapped_share(&self, nsid: u32) -> Result<f64, NamespaceError> {
        let pages = self.namespaces.get(nsid)?.pages;
        let mapped = self.namespaces.pages(nsid, 0, pages)?;
        let mapped = mapped
            .filter(|page| self.flash.lookup(*page).is_some())
            .count();
        Ok(mapped as f64 / pages as f64)
    }

    /// Flash work over the drive's life, as far as this model has seen it.
    pub fn flash_counters(&self) -> FlashCounters {
        self.flash.counters().and(&self.earlier)
    }

    /// The values of the SMART log.
    pub fn health(&self) -> Health {
        let budget = self.profile.endurance().media_bytes * self.scale;
        Health::new(&self.traffic, &self.flash_counters(), budget)
    }

    /// The values of the endurance group log.
    pub fn endurance_log(&self) -> EnduranceLog {
        let budget = self.profile.endurance().media_bytes * self.scale;
        EnduranceLog::new(
            &self.traffic,
            &self.flash_counters(),
            budget,
            self.capacity(),
        )
    }

    /// What to keep through a restart.
    pub fn state(&self) -> DeviceState {
        DeviceState {
            namespaces: self.namespaces.clone(),
            traffic: self.traffic,
            flash: self.flash_counters(),
        }
    }

    /// What it counted over its life.
    pub fn counters(&self) -> DeviceCounters {
        DeviceCounters {
            traffic: self.traffic,
            flash: self.flash_counters(),
        }
    }

    /// Takes up kept counters, before any request, unless it has counted more already.
    pub fn restore_counters(&mut self, counters: DeviceCounters) {
        if counters.traffic.pages() > self.traffic.pages() {
            self.traffic = counters.traffic;
            self.earlier = counters.flash;
        }
    }

    /// Takes up a kept state. Refused when it is of a drive of another size.
    pub fn restore(&mut self, state: DeviceState) -> Result<(), ProfileError> {
        if state.namespaces.capacity().total_bytes != self.capacity().total_bytes {
            let reason = "the kept state is of a drive of another size".to_owned();
            return Err(ProfileError::Scale {
                scale: self.scale,
                reason,
            });
        }
        self.namespaces = state.namespaces;
        self.traffic = state.traffic;
        self.earlier = state.flash;
        Ok(())
    }
}

#[cfg(test)]
#[path = "device_tests.rs"]
mod tests;
