//! Stacked bars in SVG, legible on a light and on a dark page.

use std::fmt::Write;

use crate::harness::chart::{escaped, text};

const BAR: f64 = 34.0;
/// Between groups.
const GAP: f64 = 22.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 24.0;
const WIDTH_MIN: f64 = 760.0;
/// Of a panel: its bars, and what is above and below them.
const PLOT: f64 = 200.0;
const ABOVE: f64 = 52.0;
const BELOW: f64 = 78.0;
/// Of the title and the legend.
const HEAD: f64 = 72.0;
/// As many parts as there can be are told apart.
const COLOURS: [&str; 6] = ["#2a8a4a", "#2266b3", "#c2571a", "#8a3fb0", "#b3202c", "#7a6a00"];

const STYLE: &str = "\
text{font:13px system-ui,sans-serif;fill:#1f2328}.title{font-size:17px;font-weight:600}.panel{font-weight:600}\
.small{font-size:11px}.grid{stroke:#d0d7de}\
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.grid{stroke:#3d444d}}";

/// A chart: panels below each other.
pub(crate) struct Stacks<'a> {
    pub(crate) title: &'a str,
    /// Names of the parts, from the floor up.
    pub(crate) parts: Vec<&'a str>,
    pub(crate) panels: Vec<Panel<'a>>,
}

/// Groups of bars, each with its name.
pub(crate) struct Panel<'a> {
    pub(crate) title: &'a str,
    pub(crate) groups: Vec<(String, Vec<Stack>)>,
}

/// A bar.
pub(crate) struct Stack {
    /// A line below another where it has several.
    pub(crate) label: String,
    /// Written above it.
    pub(crate) above: String,
    /// Heights of its parts, from the floor up.
    pub(crate) parts: Vec<f64>,
}

impl Stack {
    fn height(&self) -> f64 {
        self.parts.iter().filter(|part| part.is_finite()).sum()
    }
}

impl Stacks<'_> {
    /// A whole SVG document.
    pub(crate) fn render(&self) -> String {
        let width = |panel: &Panel<'_>| {
            panel.groups.iter().map(|(_, stacks)| stacks.len() as f64 * BAR + GAP).sum::<f64>()
        };
        let width = self.panels.iter().map(width).fold(WIDTH_MIN - LEFT - RIGHT, f64::max) + LEFT + RIGHT;
        let height = HEAD + self.panels.len() as f64 * (ABOVE + PLOT + BELOW);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" role=\"img\" aria-labelledby=\"title\">\n<title id=\"title\">{}</title>\n\
             <style>{STYLE}</style>\n",
            escaped(self.title)
        );
        text(&mut svg, (LEFT, 28.0), "start", "title", self.title);
        let mut x = LEFT;
        for (part, colour) in self.parts.iter().zip(COLOURS) {
            let _ = writeln!(svg, "<rect fill=\"{colour}\" x=\"{x}\" y=\"43\" width=\"14\" height=\"14\"/>");
            text(&mut svg, (x + 20.0, 54.5), "start", "", part);
            x += 40.0 + 7.0 * part.chars().count() as f64;
        }
        for (number, panel) in self.panels.iter().enumerate() {
            panel.render(&mut svg, HEAD + number as f64 * (ABOVE + PLOT + BELOW), width - RIGHT);
        }
        svg.push_str("</svg>\n");
        svg
    }
}

impl Panel<'_> {
    fn render(&self, svg: &mut String, top: f64, end: f64) {
        let stacks = self.groups.iter().flat_map(|(_, stacks)| stacks);
        let highest = stacks.map(Stack::height).fold(1.0, f64::max);
        let floor = top + ABOVE + PLOT;
        let scale = PLOT / highest;
        text(svg, (LEFT, top + 20.0), "start", "panel", self.title);
        for value in (0..=4).map(|quarter| f64::from(quarter) * highest / 4.0) {
            let y = floor - value * scale;
            let _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{end}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>"
            );
            text(svg, (LEFT - 8.0, y + 4.5), "end", "", &format!("{value:.2}"));
        }
        let mut x = LEFT + GAP / 2.0;
        for (name, stacks) in &self.groups {
            let middle = x + stacks.len() as f64 * BAR / 2.0;
            text(svg, (middle, floor + 62.0), "middle", "panel", name);
            for stack in stacks {
                stack.render(svg, (x, floor), scale);
                x += BAR;
            }
            x += GAP;
        }
    }
}

impl Stack {
    fn render(&self, svg: &mut String, (x, floor): (f64, f64), scale: f64) {
        let mut y = floor;
        for (part, colour) in self.parts.iter().zip(COLOURS).filter(|(part, _)| part.is_finite()) {
            let height = part * scale;
            y -= height;
            let _ = writeln!(
                svg,
                "<rect fill=\"{colour}\" x=\"{:.1}\" y=\"{y:.1}\" width=\"{}\" height=\"{height:.1}\"/>",
                x + 2.0,
                BAR - 4.0
            );
        }
        text(svg, (x + BAR / 2.0, y - 5.0), "middle", "small", &self.above);
        for (line, words) in self.label.lines().enumerate() {
            let place = (x + BAR / 2.0, floor + 16.0 + 13.0 * line as f64);
            text(svg, place, "middle", "small", words);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_stand_on_each_other_and_what_is_unknown_is_left_out() {
        let stack = |parts: Vec<f64>| Stack { label: "2\npages".into(), above: "x".into(), parts };
        let groups = vec![("a < b".to_owned(), vec![stack(vec![1.0, 3.0]), stack(vec![f64::NAN, 2.0])])];
        let panels = vec![Panel { title: "P", groups }];
        let svg = Stacks { title: "T", parts: vec!["one", "two"], panels }.render();
        let field = |line: &str, name: &str| -> f64 {
            line.split(&format!(" {name}=\"")).nth(1).unwrap().split('"').next().unwrap().parse().unwrap()
        };
        let bars: Vec<&str> =
            svg.lines().filter(|line| line.contains("<rect") && !line.contains("y=\"43\"")).collect();
        assert_eq!(bars.len(), 3, "{svg}");
        let [low, high, other] =
            [bars[0], bars[1], bars[2]].map(|bar| (field(bar, "y"), field(bar, "height")));
        assert_eq!((low.1, high.1, other.1), (PLOT / 4.0, PLOT * 3.0 / 4.0, PLOT / 2.0));
        assert!((high.0 + high.1 - low.0).abs() < 0.1);
        assert!(svg.contains("a &lt; b") && svg.contains(">pages<") && svg.trim_end().ends_with("</svg>"));
    }
}
