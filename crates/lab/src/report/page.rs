//! The page: question, answer, the figures that carry it, set-up; then all the rest, folded.

use super::details::details;
use super::front::{Front, Panel, Sentence};
use super::html::Html;
use super::text::escaped;
use super::{ReportError, svg};
use crate::experiment::{Results, Standing};
use crate::plan::Plan;

const STYLE: &str = include_str!("style.css");

/// The page of `results`.
///
/// # Errors
/// When a chart cannot be drawn.
pub fn html(plan: &Plan, results: &Results) -> Result<String, ReportError> {
    let front = Front::new(plan, results);
    let mut page = Html::default();
    let title = escaped(&plan.title);
    page.raw(&format!(
        "<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8>\
         <meta name=viewport content=\"width=device-width,initial-scale=1\"><title>{title}</title>\
         <style>{STYLE}</style></head><body><header>"
    ));
    page.element("h1", "", &plan.title);
    page.element("p", "class=question", &plan.question);
    page.raw("</header><main>");
    answer(&mut page, &front);
    if !front.answers.is_empty() {
        let caption = "Ratios carry over between machines: measured and published on one axis, \
                       equal factors at equal distances. An arrow is an interval that goes on.";
        page.figure(caption, &svg::ratios(&front.answers));
    }
    let mut doubts = front.doubts.iter().chain(&front.missing).peekable();
    if doubts.peek().is_some() {
        page.raw("<ul class=doubts aria-label=\"Not compared\">");
        for doubt in doubts {
            page.element("li", "", &format!("{doubt}."));
        }
        page.raw("</ul>");
    }
    setup(&mut page, plan, results);
    absolutes(&mut page, &front.panels);
    for matrix in &front.matrices {
        page.element("h2", "", &matrix.title);
        page.matrix(matrix);
    }
    page.element("p", "class=note", &legend(results));
    if !plan.limits.is_empty() {
        page.element("h2", "", "What it cannot tell");
        page.raw("<ul class=limits>");
        for limit in &plan.limits {
            page.element("li", "", limit);
        }
        page.raw("</ul>");
    }
    details(&mut page, plan, results, &front.more)?;
    let (version, revision) = (&results.version, &results.git_revision);
    page.raw("</main>");
    page.element(
        "footer",
        "",
        &format!("Flashyard {version}, revision {revision}"),
    );
    page.raw("</body></html>");
    Ok(page.text)
}

fn answer(page: &mut Html, front: &Front<'_>) {
    page.raw("<section class=answer aria-label=Answer>");
    for sentence in &front.sentences {
        let Sentence {
            standing,
            says,
            how_sure,
        } = sentence;
        let (class, badge) = match standing {
            Some(Standing::Settled) => ("settled", "measured"),
            Some(Standing::NotCompared) => ("open", "not compared"),
            Some(Standing::Modelled) => ("modelled", "modelled"),
            None => ("modelled", "computed"),
        };
        let (says, how_sure) = (escaped(says), escaped(how_sure));
        page.raw(&format!(
            "<p><span class=\"badge {class}\">{badge}</span><b>{says}</b> {how_sure}</p>"
        ));
    }
    page.raw("</section>");
    if !front.caveats.is_empty() {
        page.raw("<ul class=caveats>");
        for caveat in &front.caveats {
            page.element("li", "", &format!("{caveat}."));
        }
        page.raw("</ul>");
    }
}

fn setup(page: &mut Html, plan: &Plan, results: &Results) {
    let ended = results.ended.as_deref().unwrap_or("not complete");
    let size = results.size.as_deref().unwrap_or("as the plan has it");
    let run = plan.targets.iter();
    let run = run.filter(|target| results.left_out(&target.name).is_none());
    let targets: Vec<&str> = run.map(|target| target.label()).collect();
    let mut here = vec![
        ("machine".to_owned(), results.machine.summary()),
        ("targets".to_owned(), targets.join("; ")),
        (
            "run".to_owned(),
            format!(
                "size {size}, {}, {} to {ended}",
                times(plan),
                results.started
            ),
        ),
    ];
    if !results.programs.is_empty() {
        here.push(("with".to_owned(), results.programs.join("; ")));
    }
    page.raw("<section class=setup aria-label=Set-up>");
    list(page, "Here", &here);
    if !plan.setup.is_empty() {
        let source = plan.source.as_deref().unwrap_or("another machine");
        list(page, &format!("Published: {source}"), &plan.setup);
    }
    page.raw("</section>");
}

fn times(plan: &Plan) -> String {
    match (plan.run.repetitions, plan.run.most_repetitions()) {
        (1, 1) => "once".to_owned(),
        (2, 2) => "twice".to_owned(),
        (least, most) if least == most => format!("{most} times"),
        (least, most) => format!("{least} to {most} times"),
    }
}

fn list(page: &mut Html, heading: &str, rows: &[(String, String)]) {
    page.raw("<div>");
    page.element("h2", "", heading);
    page.raw("<dl>");
    for (what, which) in rows {
        page.element("dt", "", what);
        page.element("dd", "", which);
    }
    page.raw("</dl></div>");
}

fn absolutes(page: &mut Html, panels: &[Panel]) {
    if panels.is_empty() {
        return;
    }
    page.element("h2", "", "As measured here");
    page.raw("<div class=panels>");
    for panel in panels {
        let bars: Vec<_> = panel
            .bars
            .iter()
            .map(|(label, cell)| (label.as_str(), cell))
            .collect();
        page.raw(&svg::bars(&panel.title, panel.unit, &bars));
    }
    page.raw("</div>");
}

fn legend(results: &Results) -> String {
    let many = results.runs.iter().any(|run| run.repetition > 0);
    let interval = if many {
        "± is half the 95% interval of the mean; where it is more than 15%, the figure is marked."
    } else {
        "One repetition: there are no intervals, and nothing of it is compared."
    };
    format!(
        "{interval} What this host decided, and not the drives, is not compared. Bars behind \
         figures are shares of the row's greatest. Absolutes belong to this \
         machine and its modelled drives, published ones to theirs."
    )
}
