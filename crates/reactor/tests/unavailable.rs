//! Where io_uring cannot be had, one clear error says so.
#![allow(unsafe_code, reason = "installs a seccomp filter")]

use reactor::{Reactor, ReactorConfig, StartError};

/// What `Reactor::io_uring` says on a thread whose `io_uring_setup` fails with `errno`.
fn error_without_setup(errno: u32) -> StartError {
    std::thread::spawn(move || {
        let statement = |code: u32, k: u32, jt: u8, jf: u8| libc::sock_filter {
            code: code as u16,
            jt,
            jf,
            k,
        };
        let setup = libc::SYS_io_uring_setup as u32;
        let mut program = [
            statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
            statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, setup, 0, 1),
            statement(
                libc::BPF_RET | libc::BPF_K,
                libc::SECCOMP_RET_ERRNO | errno,
                0,
                0,
            ),
            statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0),
        ];
        let filter = libc::sock_fprog {
            len: program.len() as u16,
            filter: program.as_mut_ptr(),
        };
        // SAFETY: plain system calls on this thread; the program outlives the second.
        let installed = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
                | libc::prctl(
                    libc::PR_SET_SECCOMP,
                    libc::SECCOMP_MODE_FILTER,
                    &raw const filter,
                )
        };
        assert_eq!(installed, 0, "{}", std::io::Error::last_os_error());
        match Reactor::io_uring(ReactorConfig::default()) {
            Ok(_) => panic!("started without io_uring_setup"),
            Err(error) => error,
        }
    })
    .join()
    .expect("the thread checks only what it says")
}

#[test]
fn a_forbidden_io_uring_names_the_setting_and_seccomp() {
    let error = error_without_setup(libc::EPERM as u32);
    assert!(matches!(error, StartError::Forbidden { .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("kernel.io_uring_disabled") && text.contains("seccomp"),
        "{text}"
    );
}

#[test]
fn a_kernel_without_io_uring_is_named_with_the_one_needed() {
    let error = error_without_setup(libc::ENOSYS as u32);
    assert!(matches!(error, StartError::NoIoUring { .. }), "{error}");
    assert!(error.to_string().contains("Linux 5.19"), "{error}");
}
