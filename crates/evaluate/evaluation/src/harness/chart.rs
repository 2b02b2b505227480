//! Bars beside each other in SVG, legible on a light and on a dark page.

use std::fmt::Write;

/// Width of a group of bars and the gap to the next, and of a bar, in pixels.
const GROUP: f64 = 112.0;
const BAR: f64 = 30.0;
/// Room left of the plot and right of it, and the least width of a chart.
const LEFT: f64 = 64.0;
const RIGHT: f64 = 48.0;
const WIDTH_MIN: f64 = 720.0;
/// Height of a plot, of what is above it in its panel, and below it.
const PLOT: f64 = 220.0;
const ABOVE: f64 = 64.0;
const BELOW: f64 = 64.0;
/// Room for the title and the legend.
const HEAD: f64 = 68.0;
/// Steps between the lines of the axis, of which the first that needs few lines is taken.
const STEPS: [f64; 6] = [0.25, 0.5, 1.0, 2.0, 5.0, 10.0];
const LINES_MAX: f64 = 6.0;

const STYLE: &str = "\
text{font:13px system-ui,sans-serif;fill:#1f2328}.title{font-size:17px;font-weight:600}.panel{font-weight:600}\
.grid{stroke:#d0d7de}.base{stroke:#57606a;stroke-dasharray:5 4}.bar0{fill:#c2571a}.bar1{fill:#2266b3}\
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.grid{stroke:#3d444d}.base{stroke:#9198a1}\
.bar0{fill:#f0883e}.bar1{fill:#58a6ff}}";

/// A chart: panels below each other.
pub(crate) struct Chart<'a> {
    pub(crate) title: &'a str,
    /// What the axis shows, as a share of the base line.
    pub(crate) axis: &'a str,
    pub(crate) base: &'a str,
    pub(crate) bars: [&'a str; 2],
    pub(crate) panels: Vec<Panel>,
}

/// Groups of bars over one axis.
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) groups: Vec<Group>,
}

/// What stands above one label.
pub(crate) struct Group {
    /// A line below another where it has several.
    pub(crate) label: String,
    /// Written above the bars.
    pub(crate) above: String,
    /// Heights where the base line is 1; none for a bar that there is not.
    pub(crate) heights: [Option<f64>; 2],
}

impl Chart<'_> {
    /// A whole SVG document.
    pub(crate) fn render(&self) -> String {
        let groups = self.panels.iter().map(|panel| panel.groups.len()).max().unwrap_or(0);
        let width = (LEFT + groups as f64 * GROUP + RIGHT).max(WIDTH_MIN);
        let height = HEAD + self.panels.len() as f64 * (ABOVE + PLOT + BELOW);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" role=\"img\" aria-labelledby=\"title\">\n<title id=\"title\">{}</title>\n\
             <style>{STYLE}</style>\n",
            escaped(self.title)
        );
        text(&mut svg, (LEFT, 28.0), "start", "title", self.title);
        self.legend(&mut svg);
        for (number, panel) in self.panels.iter().enumerate() {
            self.panel(&mut svg, panel, HEAD + number as f64 * (ABOVE + PLOT + BELOW), width);
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn legend(&self, svg: &mut String) {
        let (mut x, end) = (LEFT, LEFT + 16.0);
        let _ = writeln!(svg, "<line class=\"base\" x1=\"{x}\" x2=\"{end}\" y1=\"50\" y2=\"50\"/>");
        text(svg, (x + 22.0, 54.5), "start", "", self.base);
        x += after(self.base);
        for (class, name) in self.bars.into_iter().enumerate() {
            let _ =
                writeln!(svg, "<rect class=\"bar{class}\" x=\"{x}\" y=\"43\" width=\"14\" height=\"14\"/>");
            text(svg, (x + 22.0, 54.5), "start", "", name);
            x += after(name);
        }
    }

    fn panel(&self, svg: &mut String, panel: &Panel, top: f64, width: f64) {
        let highest = panel.groups.iter().flat_map(|group| group.heights).flatten().fold(1.0, f64::max);
        let step = STEPS.into_iter().find(|step| highest / step <= LINES_MAX).unwrap_or(highest / LINES_MAX);
        let full = (highest / step).ceil() * step;
        let floor = top + ABOVE + PLOT;
        let y_of = |height: f64| floor - height / full * PLOT;
        text(svg, (LEFT, top + 20.0), "start", "panel", &panel.title);
        let lines = (full / step).round() as usize;
        for height in (0..=lines).map(|line| line as f64 * step) {
            let y = y_of(height);
            let end = width - RIGHT;
            let _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{end}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>"
            );
            text(svg, (LEFT - 8.0, y + 4.5), "end", "", &format!("{height}"));
        }
        let (x, y) = (18.0, floor - PLOT / 2.0);
        let _ = writeln!(
            svg,
            "<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\" transform=\"rotate(-90 {x} {y})\">{}</text>",
            escaped(self.axis)
        );
        for (number, group) in panel.groups.iter().enumerate() {
            let middle = LEFT + (number as f64 + 0.5) * GROUP;
            for (class, height) in group.heights.into_iter().enumerate() {
                let Some(height) = height else { continue };
                let (x, y) = (middle - BAR + class as f64 * BAR, y_of(height));
                let _ = writeln!(
                    svg,
                    "<rect class=\"bar{class}\" x=\"{:.1}\" y=\"{y:.1}\" width=\"{}\" height=\"{:.1}\"><title>{}: \
                     {height:.2}</title></rect>",
                    x + 1.0,
                    BAR - 2.0,
                    floor - y,
                    escaped(self.bars[class])
                );
            }
            let above = group.heights.into_iter().flatten().fold(1.0, f64::max);
            text(svg, (middle, y_of(above) - 8.0), "middle", "", &group.above);
            for (line, words) in group.label.lines().enumerate() {
                text(svg, (middle, floor + 20.0 + 17.0 * line as f64), "middle", "", words);
            }
        }
        let (y, end) = (y_of(1.0), width - RIGHT);
        let _ =
            writeln!(svg, "<line class=\"base\" x1=\"{LEFT}\" x2=\"{end}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>");
    }
}

/// Room for a mark and its name in the legend.
fn after(name: &str) -> f64 {
    48.0 + 7.0 * name.chars().count() as f64
}

pub(crate) fn text(svg: &mut String, (x, y): (f64, f64), anchor: &str, class: &str, words: &str) {
    let words = escaped(words);
    let _ = writeln!(
        svg,
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>"
    );
}

pub(crate) fn escaped(words: &str) -> String {
    words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(heights: [Option<f64>; 2]) -> String {
        let group = Group { label: "a < b\nc".into(), above: "3.2 s".into(), heights };
        let panel = Panel { title: "Panel".into(), groups: vec![group] };
        let bars = ["on", "control"];
        Chart { title: "A & B", axis: "time", base: "off", bars, panels: vec![panel] }.render()
    }

    fn heights_of(svg: &str, class: &str) -> Vec<f64> {
        let bars = svg.lines().filter(|line| line.contains(class) && line.contains("<title>"));
        let height = |line: &str| line.split("height=\"").nth(1)?.split('"').next()?.parse().ok();
        bars.filter_map(height).collect()
    }

    #[test]
    fn bars_are_as_high_as_their_shares() {
        let svg = chart([Some(0.5), Some(0.25)]);
        let (on, control) = (heights_of(&svg, "bar0"), heights_of(&svg, "bar1"));
        assert_eq!((on.len(), control.len()), (1, 1), "{svg}");
        assert!((on[0] / control[0] - 2.0).abs() < 0.01 && (on[0] - PLOT / 2.0).abs() < 0.1, "{svg}");
        assert!(heights_of(&chart([Some(40.0), None]), "bar0")[0] <= PLOT);
        assert_eq!(heights_of(&chart([Some(40.0), None]), "bar1"), [0.0; 0]);
    }

    #[test]
    fn words_are_there_and_escaped() {
        let svg = chart([None, Some(1.5)]);
        for word in [
            "A &amp; B",
            ">a &lt; b<",
            ">c<",
            "3.2 s",
            "Panel",
            ">off<",
            ">on<",
            ">control<",
            ">time<",
            "prefers-color-scheme",
        ] {
            assert!(svg.contains(word), "{word}: {svg}");
        }
        assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"));
        assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
    }
}
