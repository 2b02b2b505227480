//! The page: one file that needs no other, and no network.

mod tables;
mod values;

use base64::{Engine, prelude::BASE64_STANDARD};
use forebay_results::{Row, Tier};
use maud::{Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

use crate::{
    choose,
    compare::{self, Comparison},
    draw,
    figure::{Figure, Plot},
    palette,
    results::{Results, Run},
    section::{Section, sections},
    summary,
};

const SCRIPT: &str = include_str!("page.js");
const STYLE: &str = include_str!("page.css");

/// A page of `results`: a summary, then figures and tables of each command, then where the values come from.
#[must_use]
pub fn page(results: &Results) -> String {
    let sections = sections(results);
    let mut figures: Vec<Vec<Figure>> =
        sections.iter().map(|section| choose::figures(&section.entries)).collect();
    // The script has them from the values, which are there anyway.
    figures.iter_mut().flatten().flat_map(Figure::marks_mut).for_each(|mark| mark.note.clear());
    let shown = || sections.iter().zip(&figures).enumerate();
    let nav = sections
        .iter()
        .enumerate()
        .map(|(number, section)| (format!("section-{number}"), section.title.clone()));
    let main = html! {
        div.summary #summary {
            h2 { "Summary" }
            ul {
                @for (number, (section, figures)) in shown() {
                    @let sentences = summary::headlines(section, figures);
                    @if !sentences.is_empty() {
                        li {
                            a href={ "#section-" (number) } { (section.title) } ": "
                            @for sentence in sentences { (sentence) " " }
                        }
                    }
                }
                @for sentence in summary::cautions(results) { li { (sentence) } }
                @for sentence in &results.left_out { li.bad { "Left out: " (sentence) "." } }
            }
        }
        @for (number, (section, figures)) in shown() { (section_element(results, number, section, figures)) }
        (sources(results))
    };
    document(
        "Forebay results",
        &summary::measured(results),
        nav.collect(),
        &main,
        "span all runs, from the least to the largest value",
    )
}

/// A page of what changed from the runs `before` to those `after`.
#[must_use]
pub fn comparison_page(before: &Results, after: &Results, comparison: &Comparison) -> String {
    let figures = compare::figures(comparison);
    let main = html! {
        div.summary #summary {
            h2 { "Summary" }
            ul { @for sentence in compare::sentences(before, after, comparison) { li { (sentence) } } }
        }
        section #changes {
            h2 { "What changed" }
            div.figures { @for figure in &figures { (figure_element(figure)) } }
            (tables::comparison(comparison))
        }
        (sources_of(&[("Before", before), ("After", after)]))
    };
    let nav = vec![("changes".to_owned(), "What changed".to_owned())];
    document("Forebay results compared", &compare::compared(comparison), nav, &main, "are the intervals")
}

/// A whole page. Its policy allows what is in it and nothing else: no request leaves it.
fn document(
    title: &str,
    subtitle: &str,
    nav: Vec<(String, String)>,
    main: &Markup,
    thin_lines: &str,
) -> String {
    let style = format!("{}{}{STYLE}", palette::variables(), palette::FIGURE_CSS);
    let policy = format!("default-src 'none'; style-src {}; script-src {}", allowed(&style), allowed(SCRIPT));
    let markup = html! {
        (draw::HTML)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="generator" content="forebay report";
                title { (title) }
                style { (PreEscaped(&style)) }
            }
            body {
                header { h1 { (title) } p.faint { (subtitle) } }
                nav {
                    div {
                        ul {
                            li { a href="#summary" { "Summary" } }
                            @for (id, name) in nav { li { a href={ "#" (id) } { (name) } } }
                            li { a href="#sources" { "Sources" } }
                        }
                        button #theme type="button" hidden { }
                    }
                }
                main { (main) }
                footer { "Made by " code { "forebay report" } ". Values are medians; thin lines " (thin_lines) "." }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    markup.into_string() + "\n"
}

/// The source expression of a content security policy for this very text.
fn allowed(text: &str) -> String {
    format!("'sha256-{}'", BASE64_STANDARD.encode(Sha256::digest(text)))
}

fn section_element(results: &Results, number: usize, section: &Section, figures: &[Figure]) -> Markup {
    let all = summary::counted(section.entries.len(), "value", "values");
    html! {
        section id={ "section-" (number) } {
            h2 { (section.title) }
            p.faint {
                @for (place, run) in section.runs.iter().enumerate() {
                    @if place > 0 { ", " }
                    (run_link(*run)) " (" (results.runs[*run].file) ")"
                }
            }
            div.figures { @for figure in figures { (figure_element(figure)) } }
            details.all open[figures.is_empty()] {
                summary { "All " (all) }
                (values::values(results, section))
            }
        }
    }
}

fn figure_element(figure: &Figure) -> Markup {
    let extremes = summary::extremes(figure);
    let surface = figure.panels.iter().any(|panel| matches!(panel.plot, Plot::Surface { .. }));
    html! {
        figure.wide[figure.panels.len() > 1] {
            figcaption {
                h3 { (figure.title) }
                @if let Some(sentence) = extremes { p.faint { (sentence) } }
            }
            @if let Some(legend) = draw::legend(figure) { (legend) }
            div.panels { @for panel in draw::panels(figure) { (panel) } }
            @if !surface {
                details { summary { "Table" } (tables::figure(figure)) }
            }
        }
    }
}

fn sources(results: &Results) -> Markup {
    sources_of(&[("Run", results)])
}

fn sources_of(named: &[(&str, &Results)]) -> Markup {
    html! {
        section #sources {
            h2 { "Sources" }
            div.runs {
                @for (name, results) in named {
                    @for (number, run) in results.runs.iter().enumerate() {
                        article id={ (name.to_lowercase()) "-" (number + 1) } {
                            h3 { (name) " " (number + 1) }
                            (run_facts(run))
                        }
                    }
                }
            }
            dl {
                @for tier in Tier::ALL {
                    dt id=(tier.to_string()) { (tier.to_string()) }
                    dd { (summary::meaning(tier)) }
                }
            }
        }
    }
}

fn run_facts(run: &Run) -> Markup {
    let report = &run.report;
    let of =
        |pick: fn(u32, u32) -> u32| report.rows.iter().map(|row: &Row| row.runs).reduce(pick).unwrap_or(0);
    let (least, most) = (of(u32::min), of(u32::max));
    let runs = match (least, most) {
        (1, 1) => "each measured once".to_owned(),
        (least, most) if least == most => format!("each of {most} runs"),
        (least, most) => format!("each of {least} to {most} runs"),
    };
    html! {
        dl {
            dt { "Command" } dd { code { (report.command) } }
            dt { "Revision" } dd { code { (report.revision) } }
            dt { "Machine" } dd { (summary::machine(&report.host)) }
            dt { "Values" } dd { (summary::grouped(report.rows.len())) ", " (runs) }
            @if !report.date.is_empty() { dt { "Date" } dd { (report.date) } }
            @if let Some(share) = report.others_cpu {
                dt { "Other programs" } dd { "used " (forebay_quantity::percent(share)) " of the processors meanwhile" }
            }
            dt { "File" } dd { code { (run.file) } }
        }
    }
}

fn run_link(run: usize) -> Markup {
    html! { a href={ "#run-" (run + 1) } { "run " (run + 1) } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_results::Report;

    /// The name of the elements of drawings, which the script makes some of; nobody asks for it.
    const SVG_NAMES: &str = "http://www.w3.org/2000/svg";

    fn page_of(rows: Vec<Row>) -> String {
        let mut results = Results::default();
        let report = Report::new("abc123", "forebay evaluate speculation --json a.json", rows);
        results.add("a.json", &serde_json::to_string(&report).unwrap()).unwrap();
        page(&results)
    }

    fn rows() -> Vec<Row> {
        let of = |subject, value| Row::once(subject, "ssd-1ms-q128/forebay", "speedup", "1", value);
        vec![
            of("ld", 5.0),
            of("grep", 0.5),
            Row::once("ld", "ssd-1ms-q128/forebay", "output_identical", "1", 1.0),
        ]
    }

    #[test]
    fn the_summary_says_what_came_of_it() {
        let page = page_of(rows());
        for sentence in [
            "3 values of 1 run, on ",
            "Faster in every run: 1 of 2; slower in every run: 1",
            "Output was identical wherever it was compared (1 time)",
            "3 values were measured once",
        ] {
            assert!(page.contains(sentence), "{sentence}: {page}");
        }
        let mut different = rows();
        different[2].min = 0.0;
        assert!(page_of(different).contains("<strong>Output was different</strong> of <a href=\"#r2\">ld"));
    }

    #[test]
    fn a_number_leads_to_its_row_and_that_to_its_tier_and_command() {
        let page = page_of(rows());
        for part in [
            "<a href=\"#r0\"",
            "\"tables\":[[1,\"software\",[[0,0,1,0,1,5],",
            "<dt id=\"software\">",
            "<a href=\"#run-1\">run 1</a>",
            "<article id=\"run-1\">",
            "<code>forebay evaluate speculation --json a.json</code>",
            "<code>abc123</code>",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }

    #[test]
    fn the_policy_allows_the_page_s_own_script_and_style_and_nothing_else() {
        let page = page_of(rows());
        let between =
            |begin: &str, end: &str| page.split(begin).nth(1).unwrap().split(end).next().unwrap().to_owned();
        let policy = between("content=\"default-src", "\"");
        for own in [between("<script>", "</script>"), between("<style>", "</style>")] {
            assert!(policy.contains(&allowed(&own)), "{policy}");
        }
        assert!(policy.starts_with(" 'none'") && !policy.contains("unsafe"), "{policy}");
        assert!(
            !page.contains("style=\"")
                && !page.replace(SVG_NAMES, "").contains("http://")
                && !page.contains("https://"),
            "{page}"
        );
    }

    #[test]
    fn a_file_left_out_is_told() {
        let mut results = Results::default();
        results.add("a.json", &serde_json::to_string(&Report::new("r", "c", rows())).unwrap()).unwrap();
        results.left_out.push("'b.json' is <no> JSON".into());
        assert!(page(&results).contains("Left out: 'b.json' is &lt;no&gt; JSON."));
    }
}
