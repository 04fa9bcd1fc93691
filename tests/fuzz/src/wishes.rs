use everypage_core::intake::options::OptionOverrides;

/// Options of a request, as lines of `name=value`: taken, not known, or refused by name.
pub fn wishes(data: &[u8]) {
    let mut wishes = OptionOverrides::default();
    for (name, value) in super::assignments(data) {
        match wishes.take(name, value) {
            Ok(known) => {
                let name = name.to_ascii_lowercase().replace('-', "_");
                assert_eq!(known, OptionOverrides::NAMES.contains(&name.as_str()), "{name:?}");
            }
            Err(mistake) => {
                assert!(OptionOverrides::NAMES.contains(&mistake.name.as_str()), "{mistake}");
                super::is_told(&mistake.message);
            }
        }
    }
}
