//! Results as resources: `everypage://jobs/ID/result.md`, and one page as `everypage://jobs/ID/pages/7`.

use everypage_core::{
    document::TableStyle,
    finish::format::Format,
    job::{Job, jobs},
    ports::Fault,
};
use rmcp::{
    ErrorData,
    model::{ListResourcesResult, ReadResourceResult, Resource, ResourceContents, ResourceTemplate},
};

use super::{McpServer, excerpt};
use crate::{find, problem::Problem};

const PREFIX: &str = "everypage://jobs/";
/// Results that one answer lists.
const LIST_LIMIT: usize = 50;
/// Largest resource, in bytes; pages of longer documents are read one by one.
const MAX_RESOURCE: usize = 1 << 20;

pub fn templates() -> Vec<ResourceTemplate> {
    vec![
        ResourceTemplate::new(format!("{PREFIX}{{job}}/result.{{extension}}"), "result")
            .with_description("The text of a document: extension md, txt or json"),
        ResourceTemplate::new(format!("{PREFIX}{{job}}/pages/{{page}}"), "page")
            .with_description("The text of one page, as Markdown")
            .with_mime_type("text/markdown"),
    ]
}

/// The resource that an address names.
#[derive(Debug, PartialEq, Eq)]
enum Address<'a> {
    Result { job: &'a str, format: Format },
    Page { job: &'a str, page: u32 },
}

fn parse(uri: &str) -> Option<Address<'_>> {
    let (job, rest) = uri.strip_prefix(PREFIX)?.split_once('/')?;
    match rest.strip_prefix("pages/") {
        Some(page) => Some(Address::Page { job, page: page.parse().ok()? }),
        None => {
            let extension = rest.strip_prefix("result.")?;
            let is_text = |format: &&Format| is_text(**format) && format.extension() == extension;
            Some(Address::Result { job, format: *Format::ALL.iter().find(is_text)? })
        }
    }
}

fn is_text(format: Format) -> bool {
    format.mime().starts_with("text/") || format == Format::Json
}

fn internal(problem: impl Into<Problem>) -> ErrorData {
    ErrorData::internal_error(problem.into().to_string(), None)
}

impl McpServer {
    /// The results of jobs, newest first.
    pub(super) async fn list_results(
        &self,
        cursor: Option<String>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let app = self.backend.app();
        let has_result = |job: &Job| job.result.is_some();
        let page =
            jobs::list_page(&app.store, &find::tenant(&app.settings), cursor, LIST_LIMIT, has_result).await;
        let page = page.map_err(|fault: Fault| internal(fault))?;
        let resource = |job: Job| {
            let pages = job.result.as_ref().map_or(0, |result| result.metadata.total_pages);
            Resource::new(format!("{PREFIX}{}/result.md", job.id), job.received.document.name)
                .with_description(format!("{pages} pages, read on {}", job.received_at))
                .with_mime_type("text/markdown")
        };
        let mut listed = ListResourcesResult::with_all_items(page.items.into_iter().map(resource).collect());
        listed.next_cursor = page.next;
        Ok(listed)
    }

    pub(super) async fn read_result(&self, uri: &str) -> Result<ReadResourceResult, ErrorData> {
        let unknown = |reason: String| ErrorData::resource_not_found(reason, None);
        let address = parse(uri).ok_or_else(|| {
            unknown(format!("{uri} is not {PREFIX}JOB/result.md (txt, json) or {PREFIX}JOB/pages/N"))
        })?;
        let (Address::Result { job, .. } | Address::Page { job, .. }) = address;
        let job = find::job(self.backend.app(), job).await.map_err(|problem| unknown(problem.to_string()))?;
        let document = self.document(&job).await.map_err(internal)?;
        let document = document.ok_or_else(|| unknown(format!("job {} has no text yet", job.id)))?;
        let (text, mime) = match address {
            Address::Page { page, .. } => {
                let found = document.pages.iter().find(|found| found.page.get() == page);
                let found = found.ok_or_else(|| unknown(format!("job {} has no page {page}", job.id)))?;
                (excerpt::text(found), "text/markdown")
            }
            Address::Result { format, .. } => {
                let rendered = format.render(&document, TableStyle::default());
                let rendered = rendered.ok_or_else(|| unknown(format!("{uri} can't be read as text")))?;
                let text = String::from_utf8_lossy(&rendered).into_owned();
                (text, format.mime().split(';').next().unwrap_or_default())
            }
        };
        if text.len() > MAX_RESOURCE {
            let reason = format!(
                "{uri} has {} bytes, the limit is {MAX_RESOURCE}; read single pages, or use the tool read_pages",
                text.len()
            );
            return Err(ErrorData::invalid_params(reason, None));
        }
        Ok(ReadResourceResult::new(vec![ResourceContents::text(text, uri).with_mime_type(mime)]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_a_result_or_a_page() {
        let result = |format| Some(Address::Result { job: "1", format });
        assert_eq!(parse("everypage://jobs/1/result.md"), result(Format::Markdown));
        assert_eq!(parse("everypage://jobs/1/result.json"), result(Format::Json));
        assert_eq!(parse("everypage://jobs/1/pages/7"), Some(Address::Page { job: "1", page: 7 }));
        for unknown in ["", "file:///etc/passwd", "everypage://jobs/1", "everypage://jobs/1/result.exe"] {
            assert_eq!(parse(unknown), None, "{unknown}");
        }
    }
}
