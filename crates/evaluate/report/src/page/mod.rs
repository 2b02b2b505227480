//! The page: one file that needs no other, and no network.
//!
//! Its first screen says what was measured and the findings that matter, each leading to its figure. Then each experiment
//! has the figures of its first questions; all else is folded.

mod changes;
mod data;
mod experiment;

use base64::{Engine, prelude::BASE64_STANDARD};
use forebay_results::{Row, Tier};
use maud::{Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

use crate::{
    compare::Comparison,
    draw,
    experiment::experiments,
    figure::Figure,
    palette,
    results::{Results, Run},
    summary,
};

const SCRIPT: &str = include_str!("page.js");
const STYLE: &str = include_str!("page.css");

/// A page of `results`.
#[must_use]
pub fn page(results: &Results) -> String {
    let mut experiments = experiments(results);
    // The script has them from the values, which are there anyway.
    let drawn =
        experiments.iter_mut().flat_map(|one| &mut one.questions).filter_map(|one| one.figure.as_mut());
    drawn.flat_map(Figure::marks_mut).for_each(|mark| mark.note.clear());
    let open: Vec<Vec<usize>> =
        experiments.iter().map(|one| experiment::open(one, experiments.len())).collect();
    let headlines = summary::headlines(&experiments, &open);
    let several = experiments.len() > 1;
    let first = html! {
        @if !headlines.is_empty() {
            h2 { "What matters" }
            ul {
                @for headline in &headlines {
                    @let of = &experiments[headline.experiment];
                    li {
                        a href=(headline.link) { (headline.title) }
                        @if several { " (" (of.title) ")" } ": " (headline.sentence)
                    }
                }
            }
        }
        (left_out(&[results]))
    };
    let contents: Vec<(String, String)> = experiments
        .iter()
        .enumerate()
        .map(|(place, one)| (format!("e{place}"), one.title.clone()))
        .filter(|_| several)
        .collect();
    let main = html! {
        @for (place, one) in experiments.iter().enumerate() { (experiment::element(results, place, one, &open[place])) }
        (trust(&summary::cautions(results)))
        (sources(&[("Run", results)]))
    };
    document(&Document {
        title: "Forebay results",
        subtitle: &summary::measured(results, &experiments),
        first,
        contents,
        main,
        thin_lines: "span all runs, from the least to the largest value",
    })
}

/// A page of what changed from the runs `before` to those `after`.
#[must_use]
pub fn comparison_page(before: &Results, after: &Results, comparison: &Comparison) -> String {
    let main = html! {
        (changes::element(comparison))
        (trust(&changes::cautions(before, after, comparison)))
        (sources(&[("Before", before), ("After", after)]))
    };
    let first = html! {
        h2 { "What matters" }
        (changes::findings(before, after, comparison))
        (left_out(&[before, after]))
    };
    document(&Document {
        title: "Forebay results compared",
        subtitle: &changes::compared(before, after, comparison),
        first,
        contents: vec![],
        main,
        thin_lines: "are the intervals",
    })
}

struct Document<'a> {
    title: &'a str,
    subtitle: &'a str,
    /// What is on the first screen.
    first: Markup,
    /// Where else to go: an identity and a name each.
    contents: Vec<(String, String)>,
    main: Markup,
    /// What thin lines in figures are.
    thin_lines: &'a str,
}

/// A whole page. Its policy allows what is in it and nothing else: no request leaves it.
fn document(document: &Document) -> String {
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
                title { (document.title) }
                style { (PreEscaped(&style)) }
            }
            body {
                header {
                    button #theme type="button" hidden { }
                    h1 { (document.title) }
                    p { (document.subtitle) }
                }
                main {
                    div.summary #summary { (document.first) }
                    @if !document.contents.is_empty() {
                        nav aria-label="Experiments" {
                            ul { @for (id, name) in &document.contents { li { a href={ "#" (id) } { (name) } } } }
                        }
                    }
                    (document.main)
                }
                footer { "Made by " code { "forebay report" } ". Values are medians; thin lines " (document.thin_lines) "." }
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

fn left_out(of: &[&Results]) -> Markup {
    let all: Vec<&String> = of.iter().flat_map(|results| &results.left_out).collect();
    html! { @if !all.is_empty() { ul { @for sentence in all { li.bad { "Left out: " (sentence) "." } } } } }
}

fn trust(sentences: &[String]) -> Markup {
    html! {
        section #trust {
            h2 { "How far to trust this" }
            ul { @for sentence in sentences { li { (sentence) } } }
        }
    }
}

/// A figure with its heading, what it shows, and its legend.
fn figure_element(id: &str, figure: &Figure, finding: Option<&str>) -> Markup {
    let panels = draw::panels(figure);
    // As many columns of the page as it has panels.
    let class = match panels.len() {
        1 => "one",
        2 => "two",
        _ => "three",
    };
    html! {
        figure class=(class) id=(id) {
            figcaption {
                h3 { (figure.title) }
                @if let Some(sentence) = finding { p { (sentence) } }
            }
            @if let Some(legend) = draw::legend(figure) { (legend) }
            div.panels { @for panel in panels { (panel) } }
        }
    }
}

fn sources(named: &[(&str, &Results)]) -> Markup {
    html! {
        section #sources {
            h2 { "Sources" }
            details {
                summary { "Commands, machines and files" }
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

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_results::{Report, Statement, StatementKind};

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
            "3 values of 1 file, measured on ",
            "Faster in every run in 1 of 2 conditions, slower in 1.",
            "<a href=\"#e0-q0\">Speedup</a>",
            "<figure class=\"one\" id=\"e0-q0\">",
            "Output was identical wherever it was compared (1 time)",
            "3 values were measured once",
        ] {
            assert!(page.contains(sentence), "{sentence}: {page}");
        }
        let mut different = rows();
        different[2].min = 0.0;
        let page = page_of(different);
        assert!(
            page.contains("Output identical</a>: Output identical does not hold in 1 of 1 condition"),
            "{page}"
        );
        assert!(page.contains("Output was different of ld (ssd-1ms-q128/forebay)."), "{page}");
    }

    #[test]
    fn an_answer_in_a_sentence_stands_first_as_it_is_and_an_unknown_limit_is_none() {
        let says = |kind, text: &str| Statement {
            subject: "redis".into(),
            case: "8 clients".into(),
            kind,
            text: text.into(),
        };
        let page_with = |statements| {
            let mut results = Results::default();
            let report = Report::new("r", "forebay evaluate need redis", rows()).with_statements(statements);
            results.add("a.json", &serde_json::to_string(&report).unwrap()).unwrap();
            page(&results)
        };
        let needs = "It needs 64 MiB: with less, pages come back";
        let enough = "With 66 MiB it stays within 10 %";
        let page = page_with([needs, enough].map(|text| says(StatementKind::Conclusion, text)).into());
        for part in [
            "<h2>What matters</h2><ul><li><a href=\"#e0-conclusions\">What follows</a>: redis, 8 clients: It needs 64 MiB: \
             with less, pages come back.</li>",
            "<li><strong>redis, 8 clients</strong>: It needs 64 MiB: with less, pages come back. With 66 MiB it stays within \
             10 %.</li>",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(!page.contains("Limited by"), "{page}");
        let page = page_with(vec![says(StatementKind::Limit, "not decidable")]);
        assert!(page.contains("It is not known what limits redis, 8 clients."), "{page}");
        assert!(
            !page.contains("Limited by") && page.contains("<h2>What matters</h2><ul><li><a href=\"#e0-q0\">"),
            "{page}"
        );
    }

    #[test]
    fn a_number_leads_to_its_row_and_that_to_its_tier_and_command() {
        let page = page_of(rows());
        for part in [
            "<g data-r=\"0\">",
            "\"rows\":[[0,0,1,0,5,null,null,1,2,3],",
            "<dt id=\"software\">",
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
