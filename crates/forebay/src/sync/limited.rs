//! The four forms of a call that may wait: without a limit, not at all, for a duration, and until an instant.

/// Defines the forms of the call that `$body` makes within a [`Deadline`](super::Deadline). The text after the name of a form follows
/// the first sentence of its documentation; the form that does not wait may be left out.
macro_rules! limited {
    ($(#[doc = $doc:expr])* fn $name:ident(&mut $self:ident $(, $argument:ident: $type:ty)*) -> $output:ty, $($rest:tt)*) => {
        $crate::sync::limited! {
            @ [$($doc)*] $name [&mut $self] [$($argument: $type,)*] [$output] $($rest)*
        }
    };
    ($(#[doc = $doc:expr])* fn $name:ident(&$self:ident $(, $argument:ident: $type:ty)*) -> $output:ty, $($rest:tt)*) => {
        $crate::sync::limited! {
            @ [$($doc)*] $name [&$self] [$($argument: $type,)*] [$output] $($rest)*
        }
    };
    (@ [$($doc:expr)*] $name:ident [$($this:tt)*] [$($argument:ident: $type:ty,)*] [$output:ty] |$deadline:ident| $body:expr,
        no wait: $try:ident $without:literal, $($rest:tt)*
    ) => {
        $crate::sync::limited! {
            @ [$($doc)*] $name [$($this)*] [$($argument: $type,)*] [$output] |$deadline| $body, $($rest)*
        }

        #[doc = concat!("Like [`", stringify!($name), "`](Self::", stringify!($name), "), without waiting.", $without)]
        #[inline(always)]
        pub fn $try($($this)*, $($argument: $type),*) -> $output {
            let $deadline = $crate::sync::Deadline::now();
            $body
        }
    };
    (@ [$($doc:expr)*] $name:ident [$($this:tt)*] [$($argument:ident: $type:ty,)*] [$output:ty] |$deadline:ident| $body:expr,
        for: $for:ident $within:literal, until: $until:ident
    ) => {
        $(#[doc = $doc])*
        #[inline(always)]
        pub fn $name($($this)*, $($argument: $type),*) -> $output {
            let $deadline = $crate::sync::Deadline::never();
            $body
        }

        #[doc = concat!("Like [`", stringify!($name), "`](Self::", stringify!($name), "), for up to `timeout`.", $within)]
        #[inline(always)]
        pub fn $for($($this)*, $($argument: $type,)* timeout: std::time::Duration) -> $output {
            let $deadline = $crate::sync::Deadline::after(timeout);
            $body
        }

        #[doc = concat!("Like [`", stringify!($name), "`](Self::", stringify!($name), "), until `deadline`.", $within)]
        #[inline(always)]
        pub fn $until($($this)*, $($argument: $type,)* deadline: std::time::Instant) -> $output {
            let $deadline = $crate::sync::Deadline::at(deadline);
            $body
        }
    };
}
pub(crate) use limited;
