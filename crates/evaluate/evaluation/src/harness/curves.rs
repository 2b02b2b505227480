//! Lines over logarithmic axes in SVG, legible on a light and on a dark page.

use std::fmt::Write;

use crate::harness::chart::{escaped, text};

const WIDTH: f64 = 760.0;
/// Of the part with the lines, what is left of it, and right of it for their names.
const PLOT_WIDTH: f64 = 560.0;
const LEFT: f64 = 72.0;
const PLOT_HEIGHT: f64 = 280.0;
/// Of what is above and below it in its panel, and of the title.
const ABOVE: f64 = 40.0;
const BELOW: f64 = 64.0;
const HEAD: f64 = 44.0;
/// Between names.
const LEADING: f64 = 15.0;
/// The least value that is shown, at the floor.
const FLOOR: f64 = 1.0;
/// As many lines as there can be are told apart.
const COLOURS: [&str; 8] =
    ["#c2571a", "#2266b3", "#2a8a4a", "#8a3fb0", "#b3202c", "#7a6a00", "#008b8b", "#6e7781"];

const STYLE: &str = "\
text{font:13px system-ui,sans-serif;fill:#1f2328}.title{font-size:17px;font-weight:600}.panel{font-weight:600}\
.grid{stroke:#d0d7de}polyline{fill:none;stroke-width:2}\
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.grid{stroke:#3d444d}}";

/// A chart: panels below each other.
pub(crate) struct Curves<'a> {
    pub(crate) title: &'a str,
    /// What the axes show.
    pub(crate) across: &'a str,
    pub(crate) up: &'a str,
    pub(crate) panels: Vec<Panel>,
}

/// Lines over the same axes.
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) lines: Vec<Line>,
}

/// One line, through points from left to right. What is below 1 is drawn at 1.
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

impl Curves<'_> {
    /// A whole SVG document.
    pub(crate) fn render(&self) -> String {
        let height = HEAD + self.panels.len() as f64 * (ABOVE + PLOT_HEIGHT + BELOW);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
             height=\"{height}\" role=\"img\" aria-labelledby=\"title\">\n<title id=\"title\">{}</title>\n\
             <style>{STYLE}</style>\n",
            escaped(self.title)
        );
        text(&mut svg, (LEFT, 28.0), "start", "title", self.title);
        for (number, panel) in self.panels.iter().enumerate() {
            self.panel(&mut svg, panel, HEAD + number as f64 * (ABOVE + PLOT_HEIGHT + BELOW));
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn panel(&self, svg: &mut String, panel: &Panel, top: f64) {
        let points = || panel.lines.iter().flat_map(|line| &line.points);
        let widest = points().map(|point| point.0).fold(2.0, f64::max);
        let highest = points().map(|point| point.1).fold(10.0, f64::max);
        let floor = top + ABOVE + PLOT_HEIGHT;
        let decades = highest.log10().ceil();
        let x_of = |x: f64| LEFT + x.max(1.0).log2() / widest.log2() * PLOT_WIDTH;
        let y_of = |y: f64| floor - y.max(FLOOR).log10() / decades * PLOT_HEIGHT;
        text(svg, (LEFT, top + 20.0), "start", "panel", &panel.title);
        for value in (0..=decades as i32).map(|power| 10f64.powi(power)) {
            let (y, end) = (y_of(value), LEFT + PLOT_WIDTH);
            let _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{end}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>"
            );
            text(svg, (LEFT - 8.0, y + 4.5), "end", "", &format!("{value}"));
        }
        for value in (0..=widest.log2() as i32).map(|power| 2f64.powi(power)) {
            text(svg, (x_of(value), floor + 20.0), "middle", "", &format!("{value}"));
        }
        text(svg, (LEFT + PLOT_WIDTH / 2.0, floor + 42.0), "middle", "", self.across);
        let (x, y) = (18.0, floor - PLOT_HEIGHT / 2.0);
        let _ = writeln!(
            svg,
            "<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\" transform=\"rotate(-90 {x} {y})\">{}</text>",
            escaped(self.up)
        );
        for (number, line) in panel.lines.iter().enumerate() {
            let colour = COLOURS[number % COLOURS.len()];
            let places = line.points.iter().map(|(x, y)| format!("{:.1},{:.1}", x_of(*x), y_of(*y)));
            let places = places.collect::<Vec<_>>().join(" ");
            let _ = writeln!(svg, "<polyline stroke=\"{colour}\" points=\"{places}\"/>");
            let (x, y) = (LEFT + PLOT_WIDTH + 16.0, top + ABOVE + 10.0 + number as f64 * LEADING);
            let _ = writeln!(
                svg,
                "<line stroke=\"{colour}\" stroke-width=\"2\" x1=\"{x}\" x2=\"{}\" y1=\"{y}\" y2=\"{y}\"/>",
                x + 18.0
            );
            text(svg, (x + 24.0, y + 4.5), "start", "", &line.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_power_is_the_same_step() {
        let points = vec![(1.0, 0.2), (2.0, 1.0), (4.0, 10.0), (16.0, 100.0)];
        let panel = Panel { title: "a < b".into(), lines: vec![Line { name: "one".into(), points }] };
        let svg = Curves { title: "T", across: "x", up: "y", panels: vec![panel] }.render();
        let places = svg.split("points=\"").nth(1).unwrap().split('"').next().unwrap();
        let floor = HEAD + ABOVE + PLOT_HEIGHT;
        let expected: Vec<String> = [(0.0, 0.0), (0.25, 0.0), (0.5, 0.5), (1.0, 1.0)]
            .map(|(x, y)| format!("{:.1},{:.1}", LEFT + x * PLOT_WIDTH, floor - y * PLOT_HEIGHT))
            .to_vec();
        assert_eq!(places, expected.join(" "));
        assert!(svg.contains("a &lt; b") && svg.trim_end().ends_with("</svg>"), "{svg}");
    }
}
