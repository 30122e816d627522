//! The pool over simulated drives: scenarios one at a time, each as small as it could be made.

mod events;
mod regressions;
mod support;
