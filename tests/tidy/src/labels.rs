//! The labels that people read: headers and properties of the command line's tables, and columns
//! and figures of the web page.

/// Labels of the tables that a file of the command line shows.
#[must_use]
pub fn of_tables(rust: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (start, end) in [("header = [", "];"), ("table(&[", "]")] {
        for list in between(rust, start, end) {
            found.extend(literals(list).map(str::to_owned));
        }
    }
    for list in between(rust, "properties(&[", "]);") {
        // The first of each pair, which no call and no format precedes.
        let pairs = list.split('(').skip(1).map(str::trim_start);
        let first = pairs.filter_map(|pair| pair.strip_prefix('"')?.split_once("\","));
        let first = first.map(|(label, _)| label);
        found.extend(
            first
                .filter(|label| !label.contains('{'))
                .map(str::to_owned),
        );
    }
    found.retain(|label| label.contains(char::is_alphabetic));
    found
}

/// Labels that a file of the web page shows.
#[must_use]
pub fn of_page(typescript: &str) -> Vec<String> {
    let marks = [
        ("{ title: \"", "\""),
        ("\n                title: \"", "\""),
        ("<Fact title=\"", "\""),
        ("<Figure title=\"", "\""),
        ("<TimeChart title=\"", "\""),
        ("<Curve title=\"", "\""),
        ("<Gauge label=\"", "\""),
        ("[\"", "\", "),
    ];
    let mut found = Vec::new();
    for (start, end) in marks {
        // The end may be far behind another string.
        let texts = between(typescript, start, end).filter(|text| !text.contains(['"', '\n']));
        found.extend(texts.map(str::to_owned));
    }
    for cell in between(typescript, "<Table.Th", "</Table.Th>") {
        found.extend(cell.rsplit_once('>').map(|(_, text)| text.to_owned()));
    }
    found.retain(|label| label.starts_with(|c: char| c.is_uppercase() || label.starts_with("p99")));
    found
}

fn between<'a>(text: &'a str, start: &'a str, end: &'a str) -> impl Iterator<Item = &'a str> {
    let rest = text.split(start).skip(1);
    rest.filter_map(move |rest| rest.split_once(end).map(|(inside, _)| inside))
}

fn literals(list: &str) -> impl Iterator<Item = &str> {
    list.split('"').skip(1).step_by(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_headers_properties_columns_and_figures() {
        let rust = concat!(
            "let header = [\"name\", \"used by\"];\n",
            "properties(&[(\"state\", word(it)), (\n \"reason\",\n x.map_or(\"-\".into())),\n",
            " (\"used\", format!(\"{} of {}\", a, b))]);\n",
            "let rows = [\"no label\"];\n",
        );
        assert_eq!(
            of_tables(rust),
            ["name", "used by", "state", "reason", "used"]
        );
        let page = concat!(
            "{ title: \"Source\", cell }\n<Fact title=\"Free\" value />\n[\"any\", x]\n",
            "[\"UUID\", <Code/>]\n<Table.Th ta=\"right\">Size</Table.Th>\n",
            "<Table.Th>{title}</Table.Th>\n<TimeChart title=\"p99 latency\" />\n",
        );
        let mut found = of_page(page);
        found.sort();
        assert_eq!(found, ["Free", "Size", "Source", "UUID", "p99 latency"]);
    }
}
