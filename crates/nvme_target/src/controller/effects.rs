//! What commands and features do, and how far it reaches (NVMe 2.0 §5.16.1.6 and §5.16.1.17).

use nvme::feature::Feature;
use nvme::log::{CommandEffects, SupportedPages, effects};
use nvme::{AdminOpcode, IoOpcode};
use zerocopy::little_endian::U32;
use zerocopy::{FromZeros, IntoBytes};

/// Admin commands of every controller; each is about its controller.
const ADMIN: [AdminOpcode; 7] = [
    AdminOpcode::GET_LOG_PAGE,
    AdminOpcode::IDENTIFY,
    AdminOpcode::ABORT,
    AdminOpcode::SET_FEATURES,
    AdminOpcode::GET_FEATURES,
    AdminOpcode::ASYNC_EVENT_REQUEST,
    AdminOpcode::KEEP_ALIVE,
];

/// Reaches another controller of the subsystem.
const OF_OTHERS: AdminOpcode = AdminOpcode::CROSS_CONTROLLER_RESET;

/// Admin commands of a drive; each is about all of the subsystem.
const OF_DRIVES: [AdminOpcode; 2] = [
    AdminOpcode::NAMESPACE_MANAGEMENT,
    AdminOpcode::NAMESPACE_ATTACHMENT,
];

/// I/O commands that leave what a namespace holds.
const READING: [IoOpcode; 4] = [
    IoOpcode::FLUSH,
    IoOpcode::READ,
    IoOpcode::COMPARE,
    IoOpcode::VERIFY,
];

/// I/O commands that change it.
const WRITING: [IoOpcode; 4] = [
    IoOpcode::WRITE,
    IoOpcode::WRITE_ZEROES,
    IoOpcode::DATASET_MANAGEMENT,
    IoOpcode::COPY,
];

/// Commands of reservations, which a drive does not have.
const RESERVING: [IoOpcode; 4] = [
    IoOpcode::RESERVATION_REGISTER,
    IoOpcode::RESERVATION_REPORT,
    IoOpcode::RESERVATION_ACQUIRE,
    IoOpcode::RESERVATION_RELEASE,
];

/// Features of every controller with namespaces; each is about its controller.
const FEATURES: [Feature; 11] = [
    Feature::ARBITRATION,
    Feature::POWER_MANAGEMENT,
    Feature::TEMPERATURE_THRESHOLD,
    Feature::ERROR_RECOVERY,
    Feature::NUMBER_OF_QUEUES,
    Feature::WRITE_ATOMICITY,
    Feature::ASYNC_EVENT_CONFIGURATION,
    Feature::TIMESTAMP,
    Feature::KEEP_ALIVE_TIMER,
    Feature::HOST_BEHAVIOUR,
    Feature::HOST_IDENTIFIER,
];

/// Features of reservations, of a namespace each.
const OF_RESERVATIONS: [Feature; 2] = [Feature::RESERVATION_MASK, Feature::RESERVATION_PERSISTENCE];

/// The page of commands supported and effects.
pub(super) fn of_commands(of_drive: bool) -> Vec<u8> {
    let mut data = CommandEffects::new_zeroed();
    let mut io = |opcodes: &[IoOpcode], effect: u32| {
        for opcode in opcodes {
            data.io[usize::from(opcode.0)] =
                U32::new(effects::SUPPORTED | effects::OF_NAMESPACE | effect);
        }
    };
    io(&READING, 0);
    io(&WRITING, effects::CONTENT_CHANGE);
    if !of_drive {
        io(&RESERVING, 0);
    }
    for opcode in ADMIN {
        data.admin[usize::from(opcode.0)] = U32::new(effects::SUPPORTED | effects::OF_CONTROLLER);
    }
    data.admin[usize::from(OF_OTHERS.0)] = U32::new(effects::SUPPORTED | effects::OF_SUBSYSTEM);
    for opcode in OF_DRIVES.into_iter().filter(|_| of_drive) {
        data.admin[usize::from(opcode.0)] =
            U32::new(effects::SUPPORTED | effects::OF_SUBSYSTEM | effects::INVENTORY_CHANGE);
    }
    data.as_bytes().to_vec()
}

/// The page of features supported and effects.
pub(super) fn of_features(of_drive: bool, has_write_cache: bool, protects: bool) -> Vec<u8> {
    let mut data = SupportedPages::new_zeroed();
    let mut say = |feature: Feature, scope: u32| {
        data.pages[usize::from(feature.0)] = U32::new(effects::SUPPORTED | scope);
    };
    for feature in FEATURES {
        say(feature, effects::OF_CONTROLLER);
    }
    if has_write_cache {
        say(Feature::VOLATILE_WRITE_CACHE, effects::OF_CONTROLLER);
    }
    for feature in OF_RESERVATIONS.into_iter().filter(|_| !of_drive) {
        say(feature, effects::OF_NAMESPACE);
    }
    if protects {
        say(Feature::WRITE_PROTECTION, effects::OF_NAMESPACE);
    }
    data.as_bytes().to_vec()
}
