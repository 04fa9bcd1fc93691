//! The folder of jobs and results.

use std::path::PathBuf;

/// `--data`, else `EVERYPAGE_DATA`, else the user's folder for programs' data.
pub fn folder(option: Option<PathBuf>, var: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let given = |name: &str| {
        var(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty()).map(PathBuf::from)
    };
    // The XDG specification requires that relative paths are ignored.
    let xdg = || given("XDG_DATA_HOME").filter(|folder| folder.is_absolute());
    option
        .or_else(|| given("EVERYPAGE_DATA"))
        .or_else(|| xdg().map(|folder| folder.join("everypage")))
        .or_else(|| given("HOME").map(|home| home.join(".local/share/everypage")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_wins_over_variables_and_defaults() {
        let all = ["EVERYPAGE_DATA", "XDG_DATA_HOME", "HOME"];
        let with = |known: &'static [&'static str]| {
            move |name: &str| known.contains(&name).then(|| format!("/{}", name.to_lowercase()))
        };
        let path = |text: &str| Some(PathBuf::from(text));
        assert_eq!(folder(path("d"), with(&["HOME"])), path("d"));
        assert_eq!(folder(None, |name| all.contains(&name).then(|| "/e".to_owned())), path("/e"));
        assert_eq!(folder(None, with(&["XDG_DATA_HOME", "HOME"])), path("/xdg_data_home/everypage"));
        assert_eq!(folder(None, with(&["HOME"])), path("/home/.local/share/everypage"));
        assert_eq!(folder(None, with(&[])), None);
    }
}
