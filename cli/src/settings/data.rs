//! Where jobs and results are kept.

use std::path::PathBuf;

use crate::problem::Problem;

/// `--data`, else `EVERYPAGE_DATA`, else the place where programs of a user keep their data.
pub fn folder(
    option: Option<PathBuf>,
    configured: Option<String>,
    var: impl Fn(&str) -> Option<String>,
) -> Result<PathBuf, Problem> {
    let given = |name: &str| var(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    option
        .or(configured.map(PathBuf::from))
        // The specification of XDG says that relative paths are to be ignored.
        .or_else(|| given("XDG_DATA_HOME").filter(|folder| folder.is_absolute()).map(|folder| folder.join("everypage")))
        .or_else(|| given("HOME").map(|home| home.join(".local/share/everypage")))
        .ok_or_else(|| {
            Problem::Usage("there is no home folder to keep jobs in; pass --data DIR or set EVERYPAGE_DATA".into())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_on_the_folder_counts() {
        let var = |name: &str| match name {
            "XDG_DATA_HOME" => Some("/xdg".to_owned()),
            "HOME" => Some("/home/me".to_owned()),
            _ => None,
        };
        let none = |_: &str| None;
        let home = |name: &str| var(name).filter(|_| name == "HOME");
        assert_eq!(folder(Some("d".into()), Some("e".into()), var).unwrap(), PathBuf::from("d"));
        assert_eq!(folder(None, Some("e".into()), var).unwrap(), PathBuf::from("e"));
        assert_eq!(folder(None, None, var).unwrap(), PathBuf::from("/xdg/everypage"));
        assert_eq!(folder(None, None, home).unwrap(), PathBuf::from("/home/me/.local/share/everypage"));
        assert_eq!(folder(None, None, none).unwrap_err().exit().code(), 2);
    }
}
