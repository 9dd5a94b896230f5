//! Widths of terminals from which on more is shown.

/// Narrower terminals leave out columns, so that names have room.
pub const NARROW: u16 = 60;
/// Terminals of this width show both directions.
pub const WIDE: u16 = 72;
/// Terminals of this width show all columns.
pub const WIDEST: u16 = 96;
