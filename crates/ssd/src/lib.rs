//! The drive model: what an SSD does with the requests it gets, in virtual time.
//!
//! In this room: the flash translation layer ([`Flash`]), three fidelities of timing behind one
//! [`Study`], namespaces and health counters of a drive in use ([`Device`]), endurance
//! arithmetic, drive profiles with the source of every value, and [`fit()`] for a profile of one's
//! own. Not in this room: any I/O, any clock but the model's own, any payload (those are in
//! `drive`), published experiments (those are plans of `lab`).
//!
//! A request passes `Namespaces` (which logical pages?), `Flash` (where are they, and what has
//! to be cleaned?) and `Timeline` (when is it done?).

mod claim;
mod cleaning;
mod closed_form;
mod device;
mod endurance;
mod error;
mod event;
mod fit;
mod flash;
mod health;
mod load;
mod namespaces;
mod outcome;
mod pace;
mod placement;
mod precondition;
mod profile;
pub mod profiles;
mod random;
mod requests;
mod study;
pub mod theory;
mod timeline;

pub use claim::EnduranceClaim;
pub use device::{Device, DeviceCounters, DeviceOptions, DeviceState, PageRange};
pub use endurance::{Endurance, NamespaceEndurance};
pub use error::{FitError, FlashError, ProfileError};
pub use fit::{Figures, Fitted, MixFigure, Residual, WriteFigure, fit};
pub use flash::{Cleaned, Flash, FlashCounters, FlashGeometry, Isolation, UNMAPPED};
pub use health::{EnduranceLog, Health};
pub use load::{Hot, Load, Pattern};
pub use namespaces::{
    Capacity, NAMESPACES_MAX, Namespace, NamespaceError, NamespaceRequest, Namespaces,
};
pub use outcome::{Interval, Latency, Outcome};
pub use placement::Placement;
pub use precondition::Precondition;
pub use profile::{PAGE_BYTES, Profile, Provenance, TERABYTE};
pub use random::Random;
pub use study::{Fidelity, Study};
pub use timeline::Timeline;
