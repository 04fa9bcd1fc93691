use std::borrow::Cow;

use everypage_core::records::ListPage;
use serde::Serialize;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{ArrayBuilder, ObjectBuilder, Ref, RefOr, Schema, schema::Type},
};

use super::{Breaker, DeadLetter, Event, Job, LedgerEntry, Notice, Page, Purchase, Webhook, WebhookDelivery};
use crate::cursor;

/// One part of a list. Routes name it by an alias, which the OpenAPI document has as its schema.
#[derive(Debug, Serialize)]
pub struct List<T> {
    pub items: Vec<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

pub type JobList = List<Job>;
pub type PageList = List<Page>;
pub type EventList = List<Event>;
pub type DeadLetterList = List<DeadLetter>;
pub type NoticeList = List<Notice>;
pub type BreakerList = List<Breaker>;
pub type LedgerEntryList = List<LedgerEntry>;
pub type PurchaseList = List<Purchase>;
pub type WebhookList = List<Webhook>;
pub type WebhookDeliveryList = List<WebhookDelivery>;

impl<T> List<T> {
    /// A part of the list called `name`, which its cursor belongs to.
    pub fn new<S>(name: &str, page: ListPage<S>, item: impl FnMut(S) -> T) -> Self {
        Self {
            items: page.items.into_iter().map(item).collect(),
            next: page.next.map(|next| cursor::encode(name, &next)),
        }
    }
}

impl<T: ToSchema> PartialSchema for List<T> {
    fn schema() -> RefOr<Schema> {
        let next = "The `cursor` of the next request; absent at the end of the list.";
        ObjectBuilder::new()
            .description(Some("One part of a list."))
            .property("items", ArrayBuilder::new().items(Ref::from_schema_name(T::name())))
            .required("items")
            .property("next", ObjectBuilder::new().schema_type(Type::String).description(Some(next)))
            .into()
    }
}

impl<T: ToSchema> ToSchema for List<T> {
    fn name() -> Cow<'static, str> {
        format!("{}List", T::name()).into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((T::name().into_owned(), T::schema()));
        T::schemas(schemas);
    }
}
