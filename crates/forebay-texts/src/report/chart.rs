//! Charts as SVG: for each claim of a ratio one bar for the text, one for the text's code on this machine, one for forebay.

use super::{claims::Claim, results::Results};
use anyhow::{Result, anyhow};
use plotters::{
    prelude::{Color, IntoDrawingArea, RGBColor, Rectangle, SVGBackend, Text},
    style::{FontFamily, IntoTextStyle, TextStyle},
};

/// Readable on white and on black.
const COLOURS: [(&str, RGBColor); 3] = [
    ("the text", RGBColor(128, 128, 128)),
    ("its code here", RGBColor(46, 134, 193)),
    ("forebay", RGBColor(211, 84, 0)),
];

/// Stands for the colour of text, which depends on the reader's scheme.
const INK: RGBColor = RGBColor(1, 2, 3);

const WIDTH: i32 = 420;
const LABEL: i32 = 15;
const BAR: i32 = 11;
/// Between groups of bars.
const GAP: i32 = 10;

/// The chart of the ratios among these claims; `None` without any.
pub fn ratios(claims: &[&Claim], run: &Results) -> Result<Option<String>> {
    let mut groups = Vec::new();
    for claim in claims.iter().filter(|claim| claim.unit == "×") {
        // The scale is logarithmic.
        let value = |figure: &Option<super::claims::Figure>| {
            let value = figure.as_ref()?.value(run)?.value;
            (value > 0.0 && value.is_finite()).then_some(value)
        };
        let published =
            (!claim.printed.contains("not ") && claim.published > 0.0).then_some(claim.published);
        let bars = [published, value(&claim.here), value(&claim.ours)];
        if bars[1].is_some() {
            groups.push((lines(claim.says), bars));
        }
    }
    if groups.is_empty() {
        return Ok(None);
    }
    let values = groups.iter().flat_map(|(_, bars)| bars).flatten().copied();
    let most = values.clone().fold(2.0, f64::max).log10();
    let least = values.fold(0.5, f64::min).log10();
    let of_group = |lines: &[String]| LABEL * lines.len() as i32 + 3 * BAR + GAP;
    let height = 30 + groups.iter().map(|(says, _)| of_group(says)).sum::<i32>();
    // The length of a bar from 1, and where 1 is.
    let span = f64::from(WIDTH - 60) / (most - least);
    let place = |value: f64| ((value.log10() - least) * span) as i32;
    let mut svg = String::new();
    {
        let area =
            SVGBackend::with_string(&mut svg, (WIDTH as u32, height as u32)).into_drawing_area();
        let wrong = |error| anyhow!("drawing a chart: {error}");
        let words = |text: String, at: (i32, i32), size: i32| {
            let style: TextStyle<'_> = (FontFamily::SansSerif, size)
                .into_text_style(&area)
                .color(&INK);
            area.draw(&Text::new(text, at, style)).map_err(wrong)
        };
        let mut x = 0;
        for (name, colour) in COLOURS {
            area.draw(&Rectangle::new([(x, 4), (x + 10, 14)], colour.filled()))
                .map_err(wrong)?;
            words(name.into(), (x + 14, 2), 13)?;
            x += 40 + 8 * name.len() as i32;
        }
        let one = place(1.0);
        let mut y = 26;
        for (says, bars) in &groups {
            let next = y + of_group(says);
            for line in says {
                words(line.clone(), (0, y), 12)?;
                y += LABEL;
            }
            let line = Rectangle::new(
                [(one, y - 2), (one + 1, y + 3 * BAR)],
                INK.mix(0.4).filled(),
            );
            area.draw(&line).map_err(wrong)?;
            for (bar, (_, colour)) in bars.iter().zip(COLOURS) {
                if let Some(value) = bar {
                    let end = place(*value);
                    let (from, to) = (one.min(end), one.max(end).max(one + 1));
                    let bar = Rectangle::new([(from, y), (to, y + BAR - 2)], colour.filled());
                    area.draw(&bar).map_err(wrong)?;
                    let value = format!("{}×", super::digits::digits(*value));
                    words(value, (to + 4, y - 2), 11)?;
                }
                y += BAR;
            }
            y = next;
        }
        area.present().map_err(wrong)?;
    }
    let size = format!("width=\"{WIDTH}\" height=\"{height}\"");
    Ok(Some(svg.replace("#010203", "currentColor").replacen(
        &size,
        "role=\"img\"",
        1,
    )))
}

/// A label in two lines at most.
fn lines(says: &str) -> Vec<String> {
    const LONGEST: usize = 66;
    let mut lines = vec![String::new()];
    for word in says.split(' ') {
        let last = lines.last_mut().expect("there is one");
        if last.chars().count() + word.chars().count() < LONGEST {
            if !last.is_empty() {
                last.push(' ');
            }
            last.push_str(word);
        } else {
            lines.push(word.into());
        }
    }
    lines.truncate(2);
    lines
}
