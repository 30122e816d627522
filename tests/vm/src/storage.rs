//! What serves the guest: the kernel's own target inside it, which proves the scenarios.

use crate::guest::Guest;

/// The host NQN the guest connects with.
pub const HOST_NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:2cd2c43b-a90a-45c1-a8cd-86b33ab273b5";

/// A running target with two namespaces in one subsystem and one in another that the guest may
/// not see.
pub enum Storage {
    /// The target of the guest's own kernel.
    Kernel,
}

/// Sets up the kernel's target; `$root` is its configuration.
const KERNEL_SETUP: &str = r#"
root=/sys/kernel/config/nvmet
mkdir $root/hosts/HOST
for subsystem in shared private; do
    nqn=nqn.2026-11.example.flashyard:reference:$subsystem
    mkdir $root/subsystems/$nqn
    echo 0 >$root/subsystems/$nqn/attr_allow_any_host
done
shared=$root/subsystems/nqn.2026-11.example.flashyard:reference:shared
ln -s $root/hosts/HOST $shared/allowed_hosts/HOST
for id in 1 2; do
    truncate -s 600M /tmp/drive$id
    mkdir $shared/namespaces/$id
    echo 1 >$shared/namespaces/$id/buffered_io
    echo -n /tmp/drive$id >$shared/namespaces/$id/device_path
    echo 1 >$shared/namespaces/$id/enable
done
mkdir $root/ports/4 $root/ports/6
for port in 4 6; do
    echo tcp >$root/ports/$port/addr_trtype
    echo 4420 >$root/ports/$port/addr_trsvcid
done
echo ipv4 >$root/ports/4/addr_adrfam
echo 127.0.0.1 >$root/ports/4/addr_traddr
echo ipv6 >$root/ports/6/addr_adrfam
echo ::1 >$root/ports/6/addr_traddr
for port in 4 6; do
    for subsystem in shared private; do
        nqn=nqn.2026-11.example.flashyard:reference:$subsystem
        ln -s $root/subsystems/$nqn $root/ports/$port/subsystems/$nqn
    done
done
"#;

const KERNEL_ADD: &str = r"
truncate -s 64M /tmp/drive3
space=/sys/kernel/config/nvmet/subsystems/NQN/namespaces/3
mkdir $space
echo 1 >$space/buffered_io
echo -n /tmp/drive3 >$space/device_path
echo 1 >$space/enable
";

const KERNEL_REMOVE: &str = r"
space=/sys/kernel/config/nvmet/subsystems/NQN/namespaces/3
echo 0 >$space/enable
rmdir $space
";

const KERNEL_STOP: &str = r"
for port in 4 6; do rm /sys/kernel/config/nvmet/ports/$port/subsystems/*; done
";

const KERNEL_START: &str = r"
for port in 4 6; do
    for nqn in /sys/kernel/config/nvmet/subsystems/*; do
        ln -s $nqn /sys/kernel/config/nvmet/ports/$port/subsystems/${nqn##*/}
    done
done
";

impl Storage {
    /// Serves from the guest's own kernel.
    pub fn in_kernel(guest: &mut Guest) -> Storage {
        guest.check(
            "the kernel's target serves",
            &KERNEL_SETUP.replace("HOST", HOST_NQN),
        );
        Storage::Kernel
    }

    /// `-t`, `-a` and `-s` of nvme-cli, over IPv4.
    #[must_use]
    pub fn over_ipv4(&self) -> String {
        match self {
            Storage::Kernel => "-t tcp -a 127.0.0.1 -s 4420".into(),
        }
    }

    /// `-t`, `-a` and `-s` of nvme-cli, over IPv6.
    #[must_use]
    pub fn over_ipv6(&self) -> String {
        match self {
            Storage::Kernel => "-t tcp -a ::1 -s 4420".into(),
        }
    }

    /// NQN of the subsystem whose two namespaces the guest may use.
    #[must_use]
    pub fn shared(&self) -> &str {
        match self {
            Storage::Kernel => "nqn.2026-11.example.flashyard:reference:shared",
        }
    }

    /// NQN of the subsystem that does not admit the guest.
    #[must_use]
    pub fn private(&self) -> &str {
        match self {
            Storage::Kernel => "nqn.2026-11.example.flashyard:reference:private",
        }
    }

    /// Adds a third namespace of 64 MiB to the shared subsystem.
    pub fn add_namespace(&mut self, guest: &mut Guest) {
        match self {
            Storage::Kernel => {
                guest.check("namespace added", &KERNEL_ADD.replace("NQN", self.shared()));
            }
        }
    }

    /// Removes the third namespace.
    pub fn remove_namespace(&mut self, guest: &mut Guest) {
        match self {
            Storage::Kernel => {
                guest.check(
                    "namespace removed",
                    &KERNEL_REMOVE.replace("NQN", self.shared()),
                );
            }
        }
    }

    /// Ends all service at once, connections included.
    pub fn stop(&mut self, guest: &mut Guest) {
        match self {
            Storage::Kernel => guest.check("target stopped", KERNEL_STOP),
        };
    }

    /// Serves again what was served before [`Storage::stop`].
    pub fn start(&mut self, guest: &mut Guest) {
        match self {
            Storage::Kernel => guest.check("target started", KERNEL_START),
        };
    }
}
