//! The pool over simulated drives: scenarios one at a time, each as small as it could be made.

mod accounting;
mod atomic_reads;
mod balance;
mod closing;
mod dead_processes;
mod events;
mod exclusion;
mod fencing;
mod golden;
mod labels;
mod large_writes;
mod leaving;
mod membership;
mod pieces;
mod quiet;
mod recovery;
mod refusals;
mod regressions;
mod reuse;
mod scrubs;
mod sharded;
mod shards;
mod space;
mod support;
mod together;
mod trims;
