//! A page and a call for the tests of the dialects.

use everypage_core::{
    document::ImageFormat,
    ports::vision::{PageRequest, RequestImage},
    providers::target::Target,
};

use crate::dialect::Call;

pub(crate) fn page(has_image: bool, context: &str) -> PageRequest {
    let image = RequestImage { format: ImageFormat::Jpeg, bytes: b"\xff\xd8\xff".as_slice().into() };
    PageRequest {
        system_prompt: "be exact".into(),
        context_text: context.into(),
        image: has_image.then_some(image),
        max_output_tokens: 77,
        temperature: None,
        service_tier: Default::default(),
    }
}

pub(crate) fn with_call<T>(
    provider: &str,
    model: &str,
    page: &PageRequest,
    test: impl FnOnce(Call<'_>) -> T,
) -> T {
    let target = Target::new(provider.parse().unwrap(), model);
    test(Call { target: &target, page, key: Some("key"), max_output_tokens: page.max_output_tokens })
}
