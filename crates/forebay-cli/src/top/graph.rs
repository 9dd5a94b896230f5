//! Rates over time, as bars.

use forebay_net::units::scaled;
use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Color, Style, Stylize},
    widgets::{Paragraph, Sparkline},
};

/// The width of the label.
const LABEL: u16 = 13;

/// Bars that fit.
pub fn columns(area: Rect) -> usize {
    usize::from(area.width).saturating_sub(LABEL.into())
}

/// The rates as bars, with the highest one and `name` before them.
pub fn draw(frame: &mut Frame<'_>, area: Rect, name: &str, rates: &[u64]) {
    let most = rates.iter().copied().max().unwrap_or(0);
    let label = format!("{}bit/s\n{name}", scaled(most as f64));
    let [left, graph] =
        Layout::horizontal([Constraint::Length(LABEL), Constraint::Fill(1)]).areas(area);
    frame.render_widget(Paragraph::new(label).dim(), left);
    let data = Sparkline::default().data(rates).max(most.max(1));
    frame.render_widget(data.style(Style::new().fg(Color::Green)), graph);
}
