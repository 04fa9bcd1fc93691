//! The kinds of problems: one line each.

use axum::http::StatusCode;
use serde::Serialize;
use strum::{EnumIter, IntoStaticStr};
use utoipa::ToSchema;

macro_rules! codes {
    ($($name:ident, $status:ident, $title:literal;)+) => {
        /// The kind of a problem, for programs: the last part of `type`. A name never changes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema, EnumIter, IntoStaticStr)]
        #[serde(rename_all = "snake_case")]
        #[schema(as = ProblemCode)]
        #[strum(serialize_all = "snake_case")]
        pub enum Code { $($name),+ }

        impl Code {
            pub fn status(self) -> StatusCode {
                match self { $(Self::$name => StatusCode::$status),+ }
            }

            pub fn title(self) -> &'static str {
                match self { $(Self::$name => $title),+ }
            }
        }
    };
}

codes! {
    BadRequest, BAD_REQUEST, "Malformed request";
    Unauthenticated, UNAUTHORIZED, "API key missing or not valid";
    Forbidden, FORBIDDEN, "Not allowed for this caller";
    UnknownTenant, FORBIDDEN, "Unknown tenant";
    NotFound, NOT_FOUND, "No such route";
    UnknownJob, NOT_FOUND, "Unknown job";
    UnknownPurchase, NOT_FOUND, "Unknown purchase";
    NoResult, NOT_FOUND, "No such result";
    ContentRemoved, GONE, "Content was removed";
    UnknownPage, NOT_FOUND, "Unknown page";
    NoImage, NOT_FOUND, "No image of this page";
    NoMetrics, NOT_FOUND, "No metrics on this service";
    NoWebhook, NOT_FOUND, "No webhook set";
    UnknownDeadLetter, NOT_FOUND, "Unknown dead letter";
    NotPaid, PAYMENT_REQUIRED, "Payment failed";
    NotEnoughCredits, PAYMENT_REQUIRED, "Not enough credits";
    MethodNotAllowed, METHOD_NOT_ALLOWED, "Method not allowed";
    NotAcceptable, NOT_ACCEPTABLE, "No format that the client accepts";
    TenantClosed, CONFLICT, "Tenant is being erased";
    PurchasesNotAvailable, CONFLICT, "Buying credits is not available";
    ResultNotReady, CONFLICT, "Result not ready";
    AwaitingUpload, CONFLICT, "Document not uploaded yet";
    IllegalTransition, CONFLICT, "Not possible in the current state";
    JobIsOpen, CONFLICT, "Job has not ended";
    NothingToHeal, CONFLICT, "No result to heal";
    NotConfirmed, CONFLICT, "Confirmation missing or wrong";
    FileTooLarge, PAYLOAD_TOO_LARGE, "Request body too large";
    RangeNotSatisfiable, RANGE_NOT_SATISFIABLE, "Range outside of the response";
    AnswerTooLarge, PAYLOAD_TOO_LARGE, "Response too large for the gateway";
    HeadTooLarge, REQUEST_HEADER_FIELDS_TOO_LARGE, "Request head too large";
    UnsupportedMediaType, UNSUPPORTED_MEDIA_TYPE, "Unsupported media type";
    BadOptions, UNPROCESSABLE_ENTITY, "Invalid options";
    BadDocument, UNPROCESSABLE_ENTITY, "Unusable document";
    EmptyFile, UNPROCESSABLE_ENTITY, "Empty document";
    IdempotencyKeyReused, UNPROCESSABLE_ENTITY, "Idempotency key belongs to another request";
    UnreadableMessage, UNPROCESSABLE_ENTITY, "Dead letter can't be redriven";
    TooManyRequests, TOO_MANY_REQUESTS, "Too many requests";
    Timeout, REQUEST_TIMEOUT, "Request timed out";
    Internal, INTERNAL_SERVER_ERROR, "Internal error";
    UploadsNotAvailable, UNPROCESSABLE_ENTITY, "Upload links are not available";
    Unavailable, SERVICE_UNAVAILABLE, "Service unavailable";
}

impl Code {
    pub fn name(self) -> &'static str {
        self.into()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use strum::IntoEnumIterator;

    use super::*;

    #[test]
    fn codes_and_titles_are_unique_and_the_wire_has_the_same_names() {
        let names: HashSet<_> = Code::iter().map(Code::name).collect();
        let titles: HashSet<_> = Code::iter().map(Code::title).collect();
        assert_eq!((names.len(), titles.len()), (Code::iter().count(), Code::iter().count()));
        for code in Code::iter() {
            assert_eq!(serde_json::to_value(code).unwrap(), code.name());
        }
    }
}
