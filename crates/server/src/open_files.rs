//! The limit of open files: systems start programs with a low one, which the program may raise.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files beside connections of hosts: connections to the API, drives, pools' members on each core,
/// rings.
const OTHERS: u64 = 4096;

/// Raises the soft limit to the hard one. Says what is wrong if that is too low for what `cores`
/// cores may have open.
pub fn raise(cores: u64) -> Option<String> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    // Where this is refused, the limit is what it was.
    let _ = setrlimit(Resource::Nofile, raised);
    too_low(getrlimit(Resource::Nofile).current, cores)
}

fn too_low(limit: Option<u64>, cores: u64) -> Option<String> {
    let wanted = cores * node::CONNECTIONS_MAX as u64 + OTHERS;
    let limit = limit.filter(|limit| *limit < wanted)?;
    Some(format!(
        "{limit} files may be open at once, the connections that hosts may have on {cores} cores \
         take up to {wanted}: raise the hard limit (LimitNOFILE in systemd, ulimit -Hn)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_too_low_only_below_what_the_cores_may_have_open() {
        let wanted = 2 * node::CONNECTIONS_MAX as u64 + OTHERS;
        assert_eq!(too_low(None, 2), None);
        assert_eq!(too_low(Some(wanted), 2), None);
        let said = too_low(Some(wanted - 1), 2).unwrap();
        assert!(said.contains(&(wanted - 1).to_string()), "{said}");
    }
}
