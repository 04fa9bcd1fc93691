//! Chunks, the JSON Schema, searchable PDFs, and `everypage verify`.

use everypage_hostile::picture::{Pixels, png};
use serde_json::Value;

use crate::support::{Bench, report};

/// Checks a value against a schema: every keyword that the schema has is known, and every field is described.
fn check(value: &Value, schema: &Value, root: &Value, at: &str) -> Result<(), String> {
    let fields = schema.as_object().ok_or_else(|| format!("{at}: the schema is no object"))?;
    for (keyword, says) in fields {
        match keyword.as_str() {
            "description" | "format" | "title" | "$schema" | "$defs" | "examples" | "example" | "default" => {
            }
            "properties" | "required" | "items" | "additionalProperties" | "propertyNames" => {}
            "$ref" => {
                let name = says.as_str().unwrap().strip_prefix("#/$defs/").unwrap();
                check(value, &root["$defs"][name], root, at)?;
            }
            "type" => {
                let names: Vec<&str> = match says {
                    Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
                    name => vec![name.as_str().unwrap()],
                };
                let fits = |name: &&str| match *name {
                    "object" => value.is_object(),
                    "array" => value.is_array(),
                    "string" => value.is_string(),
                    "boolean" => value.is_boolean(),
                    "null" => value.is_null(),
                    "integer" => value.is_i64() || value.is_u64(),
                    "number" => value.is_number(),
                    name => panic!("{at}: unknown type {name}"),
                };
                if !names.iter().any(fits) {
                    return Err(format!("{at}: {value} is not {names:?}"));
                }
            }
            "enum" | "const" => {
                let known = says.as_array().map_or_else(|| says == value, |all| all.contains(value));
                if !known {
                    return Err(format!("{at}: {value} is not one of {says}"));
                }
            }
            "minimum" if value.as_f64().is_some_and(|value| value < says.as_f64().unwrap()) => {
                return Err(format!("{at}: {value} is less than {says}"));
            }
            "maximum" if value.as_f64().is_some_and(|value| value > says.as_f64().unwrap()) => {
                return Err(format!("{at}: {value} is more than {says}"));
            }
            "minItems" | "maxItems" | "minimum" | "maximum" => {}
            "oneOf" | "anyOf" => {
                let fitting =
                    says.as_array().unwrap().iter().filter(|one| check(value, one, root, at).is_ok());
                if fitting.count() == 0 {
                    return Err(format!("{at}: {value} fits none of {says}"));
                }
            }
            "allOf" => {
                for part in says.as_array().unwrap() {
                    check(value, part, root, at)?;
                }
            }
            keyword => panic!("{at}: the schema has the unknown keyword {keyword}"),
        }
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        if value.get(name.as_str().unwrap()).is_none() {
            return Err(format!("{at}: {name} is missing"));
        }
    }
    if let (Some(described), Some(has)) = (schema["properties"].as_object(), value.as_object()) {
        for (name, schema) in described {
            if let Some(value) = has.get(name) {
                check(value, schema, root, &format!("{at}.{name}"))?;
            }
        }
    }
    if let (Some(items), Some(schema)) = (value.as_array(), schema.get("items")) {
        for (index, item) in items.iter().enumerate() {
            check(item, schema, root, &format!("{at}[{index}]"))?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn real_results_fit_the_published_schema() {
    let bench = Bench::new(&["page=4=400"]).await;
    let schema = bench.run(&["schema"]).await.code(0).json();
    let result = bench.run(&["process", &report(), "--format", "json"]).await.code(3).json();
    check(&result, &schema, &schema, "result").unwrap();
    assert!(!result["pages"][0]["blocks"].as_array().unwrap().is_empty());
    assert!(!result["pages"][3]["calls"].as_array().unwrap().is_empty());
    // The schema is no rubber stamp.
    for (pointer, wrong) in [
        ("/pages/0/page", Value::from("1")),
        ("/pages/0/source", Value::from("guess")),
        ("/pages/3/calls/0/result", Value::from("maybe")),
        ("/pages/0/blocks/0/box", Value::from("here")),
        ("/metadata", Value::from(3)),
    ] {
        let mut changed = result.clone();
        *changed.pointer_mut(pointer).unwrap() = wrong;
        check(&changed, &schema, &schema, "result").unwrap_err();
    }
    let published = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/result.schema.json");
    let published: Value = serde_json::from_str(&std::fs::read_to_string(published).unwrap()).unwrap();
    assert!(published == schema, "docs/result.schema.json is out of date; run `./everypage dev docs`");
}

#[tokio::test]
async fn the_readme_shows_the_markdown_of_the_sample() {
    let readme = include_str!("../../../README.md");
    let (_, rest) = readme.split_once("```markdown\n").expect("an excerpt");
    let (excerpt, _) = rest.split_once("```").unwrap();
    assert!(excerpt.starts_with("## ") && excerpt.contains("| --- |"), "{excerpt}");
    let bench = Bench::new(&[]).await;
    // The level of a heading and what repeats on every page are known from the whole document.
    let ran = bench.run(&["process", &report(), "--format", "markdown"]).await.code(0);
    assert!(ran.stdout.contains(excerpt), "the README differs from\n{}", ran.stdout);
}

#[tokio::test]
async fn chunks_have_their_pages_headings_and_boxes() {
    let bench = Bench::new(&[]).await;
    let ran = bench.run(&["process", &report(), "--format", "chunks"]).await.code(0);
    let chunks: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(chunks.len() >= 12, "{}", chunks.len());
    let pages: Vec<u64> = chunks.iter().filter_map(|chunk| chunk["page"].as_u64()).collect();
    assert!(pages.is_sorted() && pages.first() == Some(&1) && pages.last() == Some(&12), "{pages:?}");
    let with_box = chunks.iter().filter(|chunk| chunk["boxes"].is_array()).count();
    let with_heading =
        chunks.iter().filter(|chunk| !chunk["headings"].as_array().unwrap().is_empty()).count();
    assert!(with_box >= 8 && with_heading >= 8, "{with_box} {with_heading}");
    assert!(chunks.iter().all(|chunk| chunk["text"].as_str().unwrap().chars().count() <= 2000));
    assert!(chunks.iter().any(|chunk| chunk["source"] == "ai"));
}

#[tokio::test]
async fn tables_are_html_where_that_is_asked_for() {
    let bench = Bench::new(&[]).await;
    let ran = bench.run(&["process", &report(), "--format", "markdown", "--tables", "html"]).await.code(0);
    assert!(ran.stdout.contains("<table>\n<thead>\n<tr><th>"), "{}", ran.stdout);
    assert!(!ran.stdout.contains("| --- |"), "{}", ran.stdout);
    // What is stored has Markdown tables, and can be had in every style.
    let job = bench.job().await;
    let stored = bench.run(&["jobs", "result", &job, "--format", "markdown"]).await.code(0).stdout;
    assert!(stored.contains("| --- |") && !stored.contains("<table>"), "{stored}");
    let again = bench.run(&["jobs", "result", &job, "--format", "md", "--tables", "html"]).await.code(0);
    assert_eq!(again.stdout, ran.stdout);
    bench.run(&["events", "verify", &job]).await.code(0);
    for refused in [
        vec!["jobs", "result", &job, "--tables", "html"],
        vec!["jobs", "result", &job, "--json", "--tables", "auto"],
        vec!["jobs", "result", &job, "--format", "md", "--tables", "tabs"],
        vec!["process", "a.pdf", "--format", "pdf", "--tables", "html"],
    ] {
        bench.run(&refused).await.code(2).reports("--tables");
    }
}

fn text_of(pdf: &[u8], page: i32) -> String {
    let document = mupdf::Document::from_bytes(pdf, "application/pdf").unwrap();
    let page = document.load_page(page).unwrap();
    let text = page.to_text_page(mupdf::TextPageFlags::empty()).unwrap();
    text.to_text().unwrap()
}

#[tokio::test]
async fn a_searchable_pdf_has_the_text_of_scans_and_keeps_that_of_other_pages() {
    let bench = Bench::new(&[]).await;
    let out = bench.path("out");
    bench.run(&["process", &report(), "--format", "pdf", "-o", &out]).await.code(0).reports("written to");
    let made = std::fs::read(bench.path("out/harbour-report-2026.pdf")).unwrap();
    let original = std::fs::read(report()).unwrap();
    // Page 9 is a scan; the model's words can be found on it now.
    assert_eq!(text_of(&original, 8).trim(), "");
    assert!(text_of(&made, 8).contains("read by gpt-5.4"), "{}", text_of(&made, 8));
    for page in (0..12).filter(|page| *page != 8) {
        assert_eq!(text_of(&made, page), text_of(&original, page), "page {}", page + 1);
    }
    // It looks as before: what was added is not seen.
    let pixels = |pdf: &[u8], page: i32| {
        let document = mupdf::Document::from_bytes(pdf, "application/pdf").unwrap();
        let page = document.load_page(page).unwrap();
        let space = mupdf::Colorspace::device_rgb();
        page.to_pixmap(&mupdf::Matrix::new_scale(0.5, 0.5), &space, false, false).unwrap().samples().to_vec()
    };
    for page in [0, 8] {
        assert!(pixels(&made, page) == pixels(&original, page), "page {} looks different", page + 1);
    }
    // A searchable PDF is read again without a model.
    let again = bench.path("out/harbour-report-2026.pdf");
    let text = bench
        .run(&["process", &again, "--pages", "9", "--ai-pages", "graphics", "--provider", "openai"])
        .await;
    text.prints("gpt-5.4");
}

#[tokio::test]
async fn an_image_becomes_a_searchable_pdf() {
    let bench = Bench::new(&[]).await;
    let picture =
        Pixels::new(300, 200, |x, y| if (x / 20 + y / 20) % 2 == 0 { [20, 30, 40] } else { [250; 3] });
    std::fs::write(bench.path("photo.png"), png(&picture)).unwrap();
    let (file, out) = (bench.path("photo.png"), bench.path("out"));
    bench.run(&["process", &file, "--format", "pdf", "-o", &out]).await.code(0);
    let made = std::fs::read(bench.path("out/photo.pdf")).unwrap();
    assert!(made.starts_with(b"%PDF-"));
    assert!(text_of(&made, 0).contains("read by gpt-5.4"), "{}", text_of(&made, 0));
    // And later, from the stored result.
    let job = bench.job().await;
    let ran = bench.run(&["jobs", "result", &job, "--format", "pdf", "-o", &bench.path("again.pdf")]).await;
    ran.code(0);
    assert!(text_of(&std::fs::read(bench.path("again.pdf")).unwrap(), 0).contains("read by gpt-5.4"));
}

#[tokio::test]
async fn an_encrypted_document_says_why_it_has_no_searchable_pdf() {
    let bench = Bench::new(&[]).await;
    let file = crate::support::sample("encrypted.pdf");
    bench.run(&["process", &file, "--password", "harbour"]).await.code(0);
    let job = bench.job().await;
    let ran = bench.run(&["jobs", "result", &job, "--format", "pdf"]).await.code(1);
    ran.reports("a searchable PDF can't be made: the document is encrypted");
}

#[tokio::test]
async fn verify_finds_what_another_tool_changed() {
    let bench = Bench::new(&[]).await;
    let text = bench.run(&["process", &report()]).await.code(0).stdout;
    let check = |name: &'static str, text: String| {
        std::fs::write(bench.path(name), text).unwrap();
        let (file, path) = (report(), bench.path(name));
        let bench = &bench;
        async move { bench.run(&["verify", &file, &path, "--json"]).await }
    };
    // What Everypage read itself agrees; pages with a picture have more words than their text layer.
    let verdict = check("own.txt", text.clone()).await.json();
    let page = |verdict: &Value, number: usize| verdict["pages"][number - 1].clone();
    for number in [1, 2, 3, 6, 7, 8, 11, 12] {
        assert_eq!(page(&verdict, number)["agreement"], 1.0, "page {number}: {}", page(&verdict, number));
    }
    assert_eq!(page(&verdict, 9)["not_checked"], "no text layer");
    // A page that is gone, without page marks: the others are still found.
    let pages: Vec<&str> = text.split("=== Page ").skip(1).collect();
    let without = |gone: usize| {
        let kept = pages.iter().enumerate().filter(|(index, _)| index + 1 != gone);
        kept.map(|(_, page)| page.split_once('\n').unwrap().1).collect::<String>()
    };
    let ran = check("gone.md", without(3)).await.code(4);
    let verdict = ran.json();
    assert_eq!(verdict["pages_absent"], serde_json::json!([3]));
    assert!(page(&verdict, 2)["agreement"].as_f64().unwrap() > 0.97, "{}", page(&verdict, 2));
    // A number that was changed.
    let changed = text.replacen("1978", "7777", 1);
    assert_ne!(changed, text);
    let verdict = check("changed.txt", changed).await.code(3).json();
    let wrong: Vec<&Value> =
        verdict["pages"].as_array().unwrap().iter().filter(|page| page["missing_numbers"] == 1).collect();
    assert_eq!(wrong.len(), 1, "{verdict}");
    assert_eq!(wrong[0]["invented_words"][0], "7777");
    // For people: a table, and what it means.
    let (file, gone) = (report(), bench.path("gone.md"));
    let ran = bench.run(&["verify", &file, &gone]).await.code(4);
    ran.prints("the page is missing").reports("pages checked").reports("without a text to check against");
    bench.run(&["verify", &file, &bench.path("nowhere.txt")]).await.code(2).reports("nowhere.txt");
}
