//! A [shard](self::core): the log, the latest updates and the cache of one core, and the
//! [`coordinator`], which a pool has once. What both know and how they speak to each
//! other is here; what they do is in the rooms above.

pub(crate) mod admitted;
pub(crate) mod alerts;
pub(crate) mod batched_lookup;
pub(crate) mod coordinator;
pub(crate) mod core;
pub(crate) mod eras;
pub(crate) mod idle_merge;
pub(crate) mod in_use;
pub(crate) mod limbo;
pub(crate) mod messages;
pub(crate) mod own_map;
pub(crate) mod pace;
pub(crate) mod publish;
pub(crate) mod retries;
pub(crate) mod size;
pub(crate) mod state;
pub(crate) mod table_room;
pub(crate) mod to_coordinator;
pub(crate) mod to_shards;
