//! [`Turns`]: one call at a time for each volume.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use tonic::Status;

/// Whose turn it is. Calls for one object must not overlap: the interface has the later one answer
/// `ABORTED`, and the caller asks again.
#[derive(Debug, Default)]
pub struct Turns(Mutex<BTreeSet<String>>);

/// A call's turn, until this is dropped.
#[derive(Debug)]
pub struct Turn<'a> {
    turns: &'a Turns,
    object: String,
}

impl Turns {
    /// Takes the turn for `object`.
    ///
    /// # Errors
    /// `ABORTED` while another call has it.
    pub fn take(&self, object: &str) -> Result<Turn<'_>, Status> {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !taken.insert(object.to_owned()) {
            let message = format!("another call for {object} is under way: ask again later");
            return Err(Status::aborted(message));
        }
        Ok(Turn {
            turns: self,
            object: object.to_owned(),
        })
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut taken = self.turns.0.lock().unwrap_or_else(PoisonError::into_inner);
        taken.remove(&self.object);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_object_has_one_call_at_a_time() {
        let turns = Turns::default();
        let first = turns.take("a").unwrap();
        assert_eq!(turns.take("a").unwrap_err().code(), tonic::Code::Aborted);
        assert!(turns.take("b").is_ok());
        drop(first);
        assert!(turns.take("a").is_ok());
    }
}
