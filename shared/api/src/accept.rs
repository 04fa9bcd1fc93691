//! Which form of a result a client can read.

use everypage_core::usecases::result::Form;

/// In order of preference where the client has none.
const FORMS: [(Form, &str, &str); 3] = [
    (Form::Text, "text", "plain"),
    (Form::Markdown, "text", "markdown"),
    (Form::Json, "application", "json"),
];

/// The form that an `Accept` header likes best; `None` when it takes none of them.
pub fn best(header: &str) -> Option<Form> {
    let mut best: Option<(Form, f32)> = None;
    for (form, kind, subtype) in FORMS {
        let weight = weight(header, kind, subtype);
        if weight > best.map_or(0.0, |(_, weight)| weight) {
            best = Some((form, weight));
        }
    }
    best.map(|(form, _)| form)
}

/// What the most exact range that covers a media type gives it.
fn weight(header: &str, kind: &str, subtype: &str) -> f32 {
    let mut found = (0, 0.0);
    for range in header.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default().to_ascii_lowercase();
        let Some((of_kind, of_subtype)) = media.split_once('/') else { continue };
        let exact = match (of_kind, of_subtype) {
            ("*", "*") => 1,
            (k, "*") if k == kind => 2,
            (k, s) if k == kind && s == subtype => 3,
            _ => continue,
        };
        let quality = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
        let quality = quality.map_or(1.0, |text| text.trim().parse().unwrap_or(0.0));
        if exact > found.0 {
            found = (exact, quality);
        }
    }
    found.1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_liked_form_is_given() {
        for (header, form) in [
            ("*/*", Some(Form::Text)),
            ("application/json", Some(Form::Json)),
            ("text/markdown, text/plain;q=0.5", Some(Form::Markdown)),
            ("text/*;q=0.2, application/json;q=0.3", Some(Form::Json)),
            ("text/plain;q=0, */*", Some(Form::Markdown)),
            ("image/png", None),
            ("", None),
            (";;q=,/", None),
        ] {
            assert_eq!(best(header), form, "{header}");
        }
    }
}
