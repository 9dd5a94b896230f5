//! Macros of the whole crate.

/// Implements `Debug` with these fields, and `..` for the others: `debug!([T] Type<T>, |this| field: this.field())`.
macro_rules! debug {
    ([$($generics:tt)*] $type:ty, |$this:ident| $($field:ident: $value:expr),+) => {
        impl<$($generics)*> std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let $this = self;
                let name = stringify!($type).split('<').next().unwrap_or_default();
                let mut fields = f.debug_struct(name.trim_end());
                $(fields.field(stringify!($field), &$value);)+
                fields.finish_non_exhaustive()
            }
        }
    };
}

/// Implements `Deref` to a part of the type, and with `mut` also `DerefMut`: `derefs!([T] Type<T>, mut [T], |this| this.slice)`.
macro_rules! derefs {
    ([$($generics:tt)*] $type:ty, mut $target:ty, |$this:ident| $part:expr) => {
        derefs!([$($generics)*] $type, $target, |$this| $part);

        impl<$($generics)*> std::ops::DerefMut for $type {
            #[inline]
            fn deref_mut(&mut self) -> &mut $target {
                let $this = self;
                &mut $part
            }
        }
    };
    ([$($generics:tt)*] $type:ty, $target:ty, |$this:ident| $part:expr) => {
        impl<$($generics)*> std::ops::Deref for $type {
            type Target = $target;

            #[inline]
            fn deref(&self) -> &$target {
                let $this = self;
                &$part
            }
        }
    };
}
