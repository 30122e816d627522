//! The one macro of the crate: a number on the wire with names for the values we know.

/// Defines a newtype over an integer that keeps values without a name, so that nothing from a wire
/// is lost or undefined, and prints the name where there is one.
macro_rules! open_enum {
    (
        $(#[$meta:meta])*
        pub struct $name:ident($inner:ty);
        $($(#[$item_meta:meta])* $item:ident = $value:expr;)+
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        #[derive(zerocopy::FromBytes, zerocopy::IntoBytes)]
        #[derive(zerocopy::Immutable, zerocopy::KnownLayout)]
        #[repr(transparent)]
        pub struct $name(pub $inner);

        impl $name {
            $($(#[$item_meta])* pub const $item: $name = $name($value);)+

            /// The specification's name of this value, if it has one here.
            pub fn name(self) -> Option<&'static str> {
                match self {
                    $($name::$item => Some(stringify!($item)),)+
                    _ => None,
                }
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self.name() {
                    Some(name) => write!(formatter, "{}({name})", stringify!($name)),
                    None => write!(formatter, "{}({:#x})", stringify!($name), self.0),
                }
            }
        }
    };
}

/// Compile-time layout check and the derives that every wire struct shares.
macro_rules! wire {
    ($($(#[$meta:meta])* pub struct $name:ident [$bytes:literal] { $($body:tt)* })+) => {
        $(
            $(#[$meta])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            #[derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Unaligned)]
            #[derive(zerocopy::Immutable, zerocopy::KnownLayout)]
            #[repr(C)]
            pub struct $name { $($body)* }

            const _: () = assert!(size_of::<$name>() == $bytes);
        )+
    };
}
