//! Changes that wipe drives: not begun where they could not be remembered, and told truthfully
//! where they fail all the same.

use api::{ErrorBody, ErrorCode, Name};
use node::Taking;

use crate::control::Control;
use crate::control::words::list;

impl Control {
    /// Refuses to wipe while the state takes no change: the new use of the drives would be undone,
    /// and what they carried would be gone for nothing.
    pub(in crate::control) async fn check_before(&self, taking: Taking) -> Result<(), ErrorBody> {
        if taking != Taking::Wiped {
            return Ok(());
        }
        self.probe_state().await;
        match self.state.problem() {
            None => Ok(()),
            Some(problem) => {
                let message =
                    format!("nothing is wiped: the change could not be remembered: {problem}");
                Err(ErrorBody::new(ErrorCode::Internal, message))
            }
        }
    }
}

/// A change that failed after it had wiped `drives`, if it was to.
pub(in crate::control) fn after(taking: Taking, drives: &[Name], error: ErrorBody) -> ErrorBody {
    if taking != Taking::Wiped {
        return error;
    }
    let drives = list(drives);
    let message = format!(
        "{}; what was on {drives} is wiped all the same",
        error.message
    );
    ErrorBody { message, ..error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_loses_contents_to_a_change_that_failed_is_told() {
        let error = || ErrorBody::new(ErrorCode::Internal, "it was undone");
        let drives = ["a", "b"].map(|name| name.parse::<Name>().expect("a name"));
        let said = after(Taking::Wiped, &drives, error()).message;
        assert_eq!(
            said,
            "it was undone; what was on a, b is wiped all the same"
        );
        assert_eq!(
            after(Taking::Blank, &drives, error()).message,
            "it was undone"
        );
    }
}
