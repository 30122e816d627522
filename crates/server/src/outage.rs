//! [`Outage`]: a receiver of what the node tells takes nothing. That it begins and that it ends is
//! told, with how much was lost. A receiver that is only started anew is not worth telling of.

use std::fmt::Display;
use std::time::Duration;

use tokio::time::Instant;

/// How long nothing is taken until that is told.
const PATIENCE: Duration = Duration::from_secs(10);

/// Whether a receiver takes what it is sent.
pub struct Outage {
    receiver: String,
    /// What it is sent, as people call it.
    sent: &'static str,
    since: Option<Begun>,
}

/// The beginning of an outage.
#[derive(Clone, Copy)]
struct Begun {
    at: Instant,
    /// Lost until then, in all.
    lost: u64,
    told: bool,
}

impl Outage {
    /// None so far, of the receiver that is called this.
    pub fn of(receiver: String, sent: &'static str) -> Outage {
        Outage {
            receiver,
            sent,
            since: None,
        }
    }

    /// Notes that nothing was taken, where `lost` were lost in all before. Gives what is to be
    /// told.
    pub fn goes_on(&mut self, lost: u64, reason: impl Display) -> Option<String> {
        let now = Instant::now();
        let begun = self.since.get_or_insert(Begun {
            at: now,
            lost,
            told: false,
        });
        let lasted = now - begun.at;
        if begun.told || lasted < PATIENCE {
            return None;
        }
        begun.told = true;
        let Outage { receiver, sent, .. } = self;
        let seconds = lasted.as_secs();
        Some(format!(
            "the {receiver} has taken no {sent} for {seconds} s: {reason}"
        ))
    }

    /// Notes that something was taken, where `lost` were lost in all. Gives what is to be told.
    pub fn ends(&mut self, lost: u64) -> Option<String> {
        let begun = self.since.take().filter(|begun| begun.told)?;
        let Outage { receiver, sent, .. } = self;
        let lost = lost.saturating_sub(begun.lost);
        Some(format!(
            "the {receiver} takes {sent} again, {lost} were lost meanwhile"
        ))
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    /// Once, and not of one that is back soon.
    #[tokio::test(start_paused = true)]
    async fn an_outage_that_lasts_is_told_and_so_is_its_end() {
        let mut outage = Outage::of("receiver r:1".into(), "messages");
        assert_eq!(outage.goes_on(3, "refused"), None);
        assert_eq!(outage.ends(4), None);
        for told in [Some("10 s: refused"), None, None] {
            assert_eq!(outage.goes_on(4, "refused"), None);
            advance(PATIENCE).await;
            let said = outage.goes_on(5, "refused");
            assert_eq!(said.is_some(), told.is_some(), "{said:?}");
            let ends = |said: String| said.ends_with(told.unwrap_or_default());
            assert!(said.is_none_or(ends));
        }
        let said = outage.ends(11);
        let expected = "the receiver r:1 takes messages again, 7 were lost meanwhile";
        assert_eq!(said.as_deref(), Some(expected));
        assert_eq!(outage.ends(11), None);
    }
}
