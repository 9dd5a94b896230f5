//! Figures as the page and the charts print them.

/// Three significant digits.
pub fn digits(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 100.0 || value == value.trunc() => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}
