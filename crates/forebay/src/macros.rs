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
