//! The functions of librdmacm and libibverbs, loaded when they are first needed.
#![allow(unsafe_code, reason = "loads C libraries; see the SAFETY lines")]

use std::ffi::{CStr, c_int, c_uint, c_void};
use std::sync::OnceLock;

use crate::error::RdmaError;
use crate::sys::{
    CmEvent, CmId, CompletionChannel, ConnectionParameters, Context, Cq, EventChannel, Mr, Pd,
    QpAttributes,
};

const CONNECTIONS: &CStr = c"librdmacm.so.1";
const VERBS: &CStr = c"libibverbs.so.1";

/// A library that stays loaded for the life of the process.
struct Library {
    handle: *mut c_void,
    file: &'static CStr,
}

impl Library {
    fn load(file: &'static CStr) -> Result<Library, RdmaError> {
        // SAFETY: the name ends with NUL; what the library does when it is loaded is its own.
        let handle = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_NOW) };
        let library = Library { handle, file };
        match handle.is_null() {
            true => Err(library.failure()),
            false => Ok(library),
        }
    }

    fn symbol(&self, name: &CStr) -> Result<*mut c_void, RdmaError> {
        // SAFETY: the handle is that of a loaded library, and the name ends with NUL.
        let found = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        match found.is_null() {
            true => Err(self.failure()),
            false => Ok(found),
        }
    }

    fn failure(&self) -> RdmaError {
        // SAFETY: the loader's text is valid until the thread's next call of it.
        let reason = unsafe {
            let text = libc::dlerror();
            match text.is_null() {
                true => "no reason given".to_owned(),
                false => CStr::from_ptr(text).to_string_lossy().into_owned(),
            }
        };
        RdmaError::NoLibrary {
            library: self.file.to_str().unwrap_or_default(),
            reason,
        }
    }
}

/// Functions by the library they are in.
macro_rules! functions {
    ($($library:ident { $($name:ident($($argument:ty),*) -> $output:ty;)+ })+) => {
        /// The functions that this crate calls.
        pub struct Functions {
            $($(pub $name: unsafe extern "C" fn($($argument),*) -> $output,)+)+
        }

        impl Functions {
            fn load() -> Result<Functions, RdmaError> {
                // The second needs the first, and finds it loaded.
                let verbs = Library::load(VERBS)?;
                let connections = Library::load(CONNECTIONS)?;
                let libraries = Libraries { verbs, connections };
                // SAFETY: each name is that of a function with this signature in the headers of
                // rdma-core.
                unsafe {
                    Ok(Functions {
                        $($($name: std::mem::transmute::<
                            *mut c_void,
                            unsafe extern "C" fn($($argument),*) -> $output,
                        >(libraries.$library.symbol(
                            CStr::from_bytes_with_nul_unchecked(
                                concat!(stringify!($name), "\0").as_bytes(),
                            ),
                        )?),)+)+
                    })
                }
            }
        }
    };
}

struct Libraries {
    verbs: Library,
    connections: Library,
}

functions! {
    connections {
        rdma_create_event_channel() -> *mut EventChannel;
        rdma_destroy_event_channel(*mut EventChannel) -> ();
        rdma_create_id(*mut EventChannel, *mut *mut CmId, *mut c_void, c_uint) -> c_int;
        rdma_destroy_id(*mut CmId) -> c_int;
        rdma_bind_addr(*mut CmId, *const libc::sockaddr) -> c_int;
        rdma_listen(*mut CmId, c_int) -> c_int;
        rdma_resolve_addr(
            *mut CmId, *const libc::sockaddr, *const libc::sockaddr, c_int
        ) -> c_int;
        rdma_resolve_route(*mut CmId, c_int) -> c_int;
        rdma_connect(*mut CmId, *mut ConnectionParameters) -> c_int;
        rdma_accept(*mut CmId, *mut ConnectionParameters) -> c_int;
        rdma_reject(*mut CmId, *const c_void, u8) -> c_int;
        rdma_disconnect(*mut CmId) -> c_int;
        rdma_get_cm_event(*mut EventChannel, *mut *mut CmEvent) -> c_int;
        rdma_ack_cm_event(*mut CmEvent) -> c_int;
        rdma_create_qp(*mut CmId, *mut Pd, *mut QpAttributes) -> c_int;
        rdma_destroy_qp(*mut CmId) -> ();
    }
    verbs {
        ibv_alloc_pd(*mut Context) -> *mut Pd;
        ibv_dealloc_pd(*mut Pd) -> c_int;
        ibv_reg_mr(*mut Pd, *mut c_void, usize, c_int) -> *mut Mr;
        ibv_dereg_mr(*mut Mr) -> c_int;
        ibv_create_comp_channel(*mut Context) -> *mut CompletionChannel;
        ibv_destroy_comp_channel(*mut CompletionChannel) -> c_int;
        ibv_create_cq(*mut Context, c_int, *mut c_void, *mut CompletionChannel, c_int) -> *mut Cq;
        ibv_destroy_cq(*mut Cq) -> c_int;
        ibv_get_cq_event(*mut CompletionChannel, *mut *mut Cq, *mut *mut c_void) -> c_int;
        ibv_ack_cq_events(*mut Cq, c_uint) -> ();
    }
}

/// The functions, loaded by the first who asks.
///
/// # Errors
/// A library is missing. Who asks again has it looked for again.
pub fn functions() -> Result<&'static Functions, RdmaError> {
    static FUNCTIONS: OnceLock<Functions> = OnceLock::new();
    if let Some(loaded) = FUNCTIONS.get() {
        return Ok(loaded);
    }
    let loaded = Functions::load()?;
    Ok(FUNCTIONS.get_or_init(|| loaded))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_named() {
        let missing = Library::load(c"libsuch.so.999").err().unwrap().to_string();
        assert!(missing.starts_with("libsuch.so.999 cannot be loaded: "));
        assert!(missing.ends_with("needed: librdmacm1, libibverbs1, ibverbs-providers"));
        let here = Library::load(c"libc.so.6").unwrap();
        assert!(here.symbol(c"memcpy").is_ok());
        assert!(matches!(
            here.symbol(c"no_such_function"),
            Err(RdmaError::NoLibrary { .. })
        ));
    }
}
