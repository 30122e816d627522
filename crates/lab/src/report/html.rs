//! [`Html`]: the pieces that a page is made of.

use super::matrix::{Cell, Matrix, Row};
use super::text::{escaped, number};

/// A page as it grows.
#[derive(Default)]
pub struct Html {
    pub text: String,
}

impl Html {
    pub fn raw(&mut self, html: &str) {
        self.text.push_str(html);
        self.text.push('\n');
    }

    /// Text in an element of this name, with these attributes.
    pub fn element(&mut self, name: &str, attributes: &str, text: &str) {
        let space = if attributes.is_empty() { "" } else { " " };
        self.raw(&format!(
            "<{name}{space}{attributes}>{}</{name}>",
            escaped(text)
        ));
    }

    pub fn paragraph(&mut self, text: &str) {
        self.element("p", "", text);
    }

    pub fn figure(&mut self, caption: &str, inner: &str) {
        self.raw(&format!(
            "<figure><figcaption>{}</figcaption><div class=wide tabindex=0>{inner}</div></figure>",
            escaped(caption)
        ));
    }

    /// What is shown when asked for, and left out of print.
    pub fn folded(&mut self, summary: &str, inner: impl FnOnce(&mut Html)) {
        let mut within = Html::default();
        inner(&mut within);
        if !within.text.is_empty() {
            let summary = escaped(summary);
            self.raw(&format!(
                "<details class=folded><summary>{summary}</summary>"
            ));
            self.raw(&within.text);
            self.raw("</details>");
        }
    }

    /// A table; columns from `numbers` on are numbers.
    pub fn table(&mut self, header: &[&str], numbers: usize, rows: &[Vec<String>]) {
        let class = |index: usize| if index >= numbers { " class=n" } else { "" };
        let mut html = "<div class=wide tabindex=0><table><thead><tr>".to_owned();
        for (index, name) in header.iter().enumerate() {
            html.push_str(&format!("<th{}>{}</th>", class(index), escaped(name)));
        }
        html.push_str("</tr></thead><tbody>");
        for row in rows {
            html.push_str("\n<tr>");
            for (index, cell) in row.iter().enumerate() {
                html.push_str(&format!("<td{}>{}</td>", class(index), escaped(cell)));
            }
            html.push_str("</tr>");
        }
        html.push_str("</tbody></table></div>");
        self.raw(&html);
    }

    /// A table with a heading, if there is anything in it.
    pub fn rows(&mut self, heading: &str, header: &[&str], numbers: usize, rows: &[Vec<String>]) {
        if !rows.is_empty() {
            self.element("h3", "", heading);
            self.table(header, numbers, rows);
        }
    }

    /// A row a load, a column a target, each figure before a bar of its share of the row's most.
    pub fn matrix(&mut self, matrix: &Matrix<'_>) {
        let mut html = "<div class=wide tabindex=0><table class=matrix><thead><tr><th>load</th>\
                        <th>in</th>"
            .to_owned();
        for target in &matrix.columns {
            html.push_str(&format!("<th class=n>{}</th>", escaped(target.label())));
        }
        html.push_str("</tr></thead><tbody>");
        for row in &matrix.rows {
            html.push_str(&row_of(row));
        }
        html.push_str("</tbody></table></div>");
        self.raw(&html);
    }
}

fn row_of(row: &Row) -> String {
    let (label, unit) = (escaped(&row.label), escaped(row.unit));
    let mut html = format!("\n<tr><td>{label}</td><td class=in>{unit}</td>");
    for cell in &row.cells {
        match cell {
            Some(cell) => html.push_str(&cell_of(cell)),
            None => html.push_str("<td class=\"n none\">–</td>"),
        }
    }
    html.push_str("</tr>");
    html
}

fn cell_of(cell: &Cell) -> String {
    let unsure = if cell.is_wide() { " class=unsure" } else { "" };
    let measured = escaped(&cell.measured());
    let published = cell.published.map_or_else(String::new, |published| {
        let beyond = if cell.holds {
            ""
        } else {
            ", beyond the error allowed"
        };
        format!("<small>published {}{beyond}</small>", number(published))
    });
    format!(
        "<td class=n style=\"--share:{:.0}%\"><span{unsure}>{measured}</span>{published}</td>",
        100.0 * cell.share
    )
}
