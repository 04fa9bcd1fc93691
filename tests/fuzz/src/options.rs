use everypage_core::intake::options::OptionOverrides;

/// Options of a request, as lines of `name=value`: each is accepted, unknown, or refused by name.
pub fn options(data: &[u8]) {
    let mut options = OptionOverrides::default();
    for (name, value) in super::assignments(data) {
        match options.set(name, value) {
            Ok(known) => {
                let name = name.to_ascii_lowercase().replace('-', "_");
                assert_eq!(known, OptionOverrides::NAMES.contains(&name.as_str()), "{name:?}");
            }
            Err(error) => {
                assert!(OptionOverrides::NAMES.contains(&error.name.as_str()), "{error}");
                super::is_explained(&error.message);
            }
        }
    }
}
