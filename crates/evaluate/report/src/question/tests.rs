use super::*;
use crate::figure::Plot;

fn figures_of(rows: &[(&str, &str, &str, f64)]) -> Vec<Figure> {
    let rows: Vec<Row> = rows
        .iter()
        .map(|(subject, case, metric, value)| Row::once(*subject, *case, *metric, "1", *value))
        .collect();
    let entries: Vec<Entry> = rows.iter().enumerate().map(|(number, row)| Entry { number, row }).collect();
    drawn(&entries)
}

fn drawn(entries: &[Entry]) -> Vec<Figure> {
    questions(entries).into_iter().filter_map(|question| question.figure).collect()
}

fn titles(figure: &Figure) -> Vec<&str> {
    figure.panels.iter().map(|panel| panel.title.as_str()).collect()
}

#[test]
fn words_make_bars_with_a_series_for_each_side() {
    let mut rows = Vec::new();
    for (disk, subject) in
        [("ssd-1ms-q128", "ld"), ("ssd-1ms-q128", "grep"), ("local", "ld"), ("local", "grep")]
    {
        for (side, value) in [("original", 3.0), ("forebay", 1.0)] {
            rows.push((subject, format!("{disk}/{side}"), value));
        }
    }
    let rows: Vec<_> =
        rows.iter().map(|(subject, case, value)| (*subject, case.as_str(), "stalls", *value)).collect();
    let figures = figures_of(&rows);
    let [figure] = figures.as_slice() else { panic!("{figures:?}") };
    assert_eq!(
        (figure.title.as_str(), figure.series.as_slice()),
        ("Stalls", &["original".to_owned(), "forebay".to_owned()][..])
    );
    assert_eq!(titles(figure), [""]);
    let Plot::Bars(categories) = &figure.panels[0].plot else { panic!("{figure:?}") };
    assert_eq!(
        categories.iter().map(|one| one.label.as_str()).collect::<Vec<_>>(),
        ["ld, ssd-1ms-q128", "grep, ssd-1ms-q128", "ld, local", "grep, local"]
    );
    assert_eq!(categories[3].marks[0].as_ref().unwrap().row, Some(6));
}

#[test]
fn an_amount_with_three_values_makes_curves_by_size() {
    let rows = [
        ("fft", "ssd-1ms-q128/20 MiB/off", 5.0),
        ("fft", "ssd-1ms-q128/10 MiB/off", 9.0),
        ("fft", "ssd-1ms-q128/40 MiB/off", 2.0),
        ("fft", "ssd-1ms-q128/10 MiB/on", 4.0),
    ];
    let figures = figures_of(&rows.map(|(subject, case, value)| (subject, case, "stalls", value)));
    let Plot::Curves { along, lines } = &figures[0].panels[0].plot else { panic!("{figures:?}") };
    let mebibytes: Vec<f64> = lines[0].iter().map(|point| point.place / 1_048_576.0).collect();
    assert_eq!((mebibytes, lines[1].len()), (vec![10.0, 20.0, 40.0], 1));
    assert_eq!(
        (along.quantity.clone(), figures[0].series.clone()),
        (Quantity::Bytes, vec!["off".to_owned(), "on".to_owned()])
    );
}

#[test]
fn two_amounts_make_lines_where_few_and_a_surface_where_many() {
    let rows = |sets: usize| -> Vec<(String, f64)> {
        let all = (0..sets).flat_map(|set| (0..8).map(move |stride| (set, stride)));
        all.map(|(set, stride)| {
            (format!("load/{} KiB/stride {}", 1 << set, 1 << stride), (set * 9 + stride) as f64)
        })
        .collect()
    };
    let figure = |sets| {
        let rows = rows(sets);
        let rows: Vec<_> =
            rows.iter().map(|(case, value)| ("memory", case.as_str(), "rate", *value)).collect();
        figures_of(&rows).remove(0)
    };
    let few = figure(4);
    assert_eq!(few.series, ["1 KiB", "2 KiB", "4 KiB", "8 KiB"]);
    let Plot::Curves { along, .. } = &few.panels[0].plot else { panic!("{few:?}") };
    assert_eq!(along.name, "stride");
    let many = figure(20);
    let Plot::Surface { along, up, cells } = &many.panels[0].plot else { panic!("{many:?}") };
    assert_eq!((along.quantity.clone(), up.name.as_str(), cells.len()), (Quantity::Bytes, "stride", 160));
}

#[test]
fn what_one_side_alone_counted_comes_after_what_all_did_and_outcomes_come_first() {
    let both = [
        ("a", "x", 1.0),
        ("a", "y", 2.0),
        ("b", "x", 3.0),
        ("b", "y", 4.0),
        ("c", "x", 3.0),
        ("c", "y", 4.0),
    ];
    let mut rows: Vec<_> =
        both.iter().map(|(subject, case, value)| (*subject, *case, "stalls", *value)).collect();
    rows.extend([
        ("a", "y", "hints", 7.0),
        ("b", "y", "hints", 8.0),
        ("a", "y", "speedup", 2.0),
        ("b", "y", "speedup", 3.0),
    ]);
    let figures = figures_of(&rows);
    assert_eq!(
        figures.iter().map(|figure| figure.title.as_str()).collect::<Vec<_>>(),
        ["Speedup", "Stalls", "Hints"]
    );
    assert_eq!(figures[0].reference.as_ref().unwrap().0, 1.0);
}

#[test]
fn what_does_not_differ_and_what_is_alone_is_no_figure() {
    assert_eq!(figures_of(&[("a", "x", "stalls", 1.0)]), []);
    assert_eq!(figures_of(&[("a", "x", "stalls", 1.0), ("b", "x", "stalls", 1.0)]), []);
    assert_eq!(figures_of(&[]), []);
}

#[test]
fn parts_of_a_metric_are_told_apart() {
    let rows = [
        ("web", "p/model", "time/disk", 1.0),
        ("web", "p/model", "time/network", 3.0),
        ("rtp", "p/model", "time/disk", 2.0),
    ];
    let figures = figures_of(&rows);
    assert_eq!((figures[0].title.as_str(), figures[0].series.len()), ("Time", 2));
    assert_eq!(figures[0].marks().count(), 3);
}

#[test]
fn figures_of_one_quantity_have_the_names_of_what_they_are_of() {
    let rows = [
        ("page fault", "minor", 1.0),
        ("page fault", "major", 9.0),
        ("call", "4 KiB", 2.0),
        ("call", "8 KiB", 3.0),
    ];
    let figures = figures_of(&rows.map(|(subject, case, value)| (subject, case, "cost", value)));
    let titles: Vec<&str> = figures.iter().map(|figure| figure.title.as_str()).collect();
    assert_eq!(titles, ["Cost: page fault", "Cost: call"]);
}

#[test]
fn one_quantity_of_two_tiers_makes_two_figures() {
    let rows: Vec<Row> =
        [("a", 1.0), ("b", 2.0)].map(|(subject, value)| Row::once(subject, "x", "misses", "1", value)).into();
    let simulated = rows.iter().cloned().map(|row| row.with_tier(Tier::Simulated));
    let rows: Vec<Row> = rows.iter().cloned().chain(simulated).collect();
    let entries: Vec<Entry> = rows.iter().enumerate().map(|(number, row)| Entry { number, row }).collect();
    assert_eq!(drawn(&entries).len(), 2);
}

#[test]
fn conditions_of_one_experiment_are_in_one_panel_with_titles_and_units() {
    let rows = [
        ("nginx", "10 KiB/16 clients", 12_000.0),
        ("nginx", "10 KiB/16 clients/memory 24 MiB", 300.0),
        ("apache", "10 KiB/16 clients", 9_000.0),
        ("apache", "10 KiB/16 clients/memory 24 MiB", 100.0),
    ];
    let rows: Vec<Row> =
        rows.map(|(subject, case, value)| Row::once(subject, case, "replies_served", "1/s", value)).into();
    let entries: Vec<Entry> = rows.iter().enumerate().map(|(number, row)| Entry { number, row }).collect();
    let questions = questions(&entries);
    let [question] = questions.as_slice() else { panic!("one question") };
    let figure = question.figure.as_ref().unwrap();
    assert_eq!(figure.series, ["memory 24 MiB", "all memory"]);
    assert_eq!((figure.axis.as_str(), figure.labels.as_str()), ("replies served, 1/s", "subject"));
    assert_eq!(figure.panels.len(), 1);
    let sentence = &question.finding.as_ref().unwrap().sentence;
    assert!(sentence.contains("less") && sentence.contains("in 2 of 2 such pairs"), "{sentence}");
}

#[test]
fn many_subjects_lie_in_the_order_of_their_values() {
    let rows: Vec<Row> = (0..90)
        .map(|number| {
            Row::once(format!("program {number}"), "disk", "stalls", "1", f64::from(number * 7 % 90))
        })
        .collect();
    let entries: Vec<Entry> = rows.iter().enumerate().map(|(number, row)| Entry { number, row }).collect();
    let figures = drawn(&entries);
    let Plot::Curves { along, lines } = &figures[0].panels[0].plot else { panic!("{figures:?}") };
    assert!(along.ranks && lines[0].len() == 90, "{along:?}");
    assert!(lines[0].is_sorted_by(|one, other| one.mark.value <= other.mark.value));
}

#[test]
fn a_curve_over_limits_is_one_beside_what_has_no_limit() {
    let rows = ["8 clients", "8 clients/memory 63 MiB", "8 clients/memory 47 MiB", "8 clients/memory 35 MiB"];
    for case in ["8 clients", ""] {
        let cases = rows.map(|row| row.replace("8 clients", case));
        let rows: Vec<_> = cases
            .iter()
            .zip([9.0, 8.0, 5.0, 2.0])
            .map(|(case, value)| ("redis", case.trim_start_matches('/'), "transactions", value))
            .collect();
        let figures = figures_of(&rows);
        let Plot::Curves { lines, .. } = &figures[0].panels[0].plot else { panic!("{figures:?}") };
        assert_eq!(lines.iter().map(Vec::len).max(), Some(3), "{figures:?}");
    }
}
