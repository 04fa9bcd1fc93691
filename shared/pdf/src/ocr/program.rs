//! Where the OCR program and its language data are.

use std::path::{Path, PathBuf};

/// Folders in which packages install language data.
const DATA_FOLDERS: [&str; 6] = [
    "/usr/share/tesseract-ocr/5/tessdata",
    "/usr/share/tesseract-ocr/4.00/tessdata",
    "/usr/share/tesseract-ocr/tessdata",
    "/usr/share/tessdata",
    "/usr/local/share/tessdata",
    "/opt/tessdata",
];

/// The places to look in. Nothing is opened before it is needed.
#[derive(Clone, Debug, Default)]
pub struct OcrProgram {
    program: PathBuf,
    data: Vec<PathBuf>,
    builder: Option<PathBuf>,
}

impl OcrProgram {
    /// `program` is the file of `everypage-ocr`. Language data may be in `tessdata` next to it, and where packages
    /// install it.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        let program = program.into();
        let own = program.parent().map(|folder| folder.join("tessdata"));
        let data = own.into_iter().chain(DATA_FOLDERS.map(PathBuf::from)).collect();
        Self { program, data, builder: None }
    }

    /// Looks for language data in `folder` first, as the variable `TESSDATA_PREFIX` of Tesseract says.
    pub fn with_data(mut self, folder: impl Into<PathBuf>) -> Self {
        let folder = folder.into();
        self.data.splice(0..0, [folder.clone(), folder.join("tessdata")]);
        self
    }

    /// A command that builds the program when it is first needed.
    pub fn built_by(mut self, command: impl Into<PathBuf>) -> Self {
        self.builder = Some(command.into());
        self
    }

    pub fn path(&self) -> &Path {
        &self.program
    }

    pub(super) fn exists(&self) -> bool {
        self.program.is_file()
    }

    /// The command that builds the program, if it is not there.
    pub(super) fn missing_builder(&self) -> Option<&Path> {
        self.builder.as_deref().filter(|_| !self.exists())
    }

    /// The folder that has the data of all `languages`.
    pub(super) fn data_for(&self, languages: &[String]) -> Result<&Path, String> {
        let has = |folder: &Path, name: &String| folder.join(format!("{name}.traineddata")).is_file();
        let complete = self.data.iter().find(|folder| languages.iter().all(|name| has(folder, name)));
        complete.map(PathBuf::as_path).ok_or_else(|| {
            let missing: Vec<&str> = languages
                .iter()
                .filter(|name| !self.data.iter().any(|folder| has(folder, name)))
                .map(String::as_str)
                .collect();
            let packages: Vec<String> =
                missing.iter().map(|name| format!("tesseract-ocr-{}", name.replace('_', "-"))).collect();
            match missing.is_empty() {
                true => format!("the data of {} is not all in one folder", languages.join("+")),
                false => format!(
                    "there is no language data for {}: install {} (Debian, Ubuntu), or set TESSDATA_PREFIX to the folder with {}.traineddata",
                    missing.join(" and "),
                    packages.join(" "),
                    missing.first().copied().unwrap_or_default(),
                ),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_language_is_named_with_its_package() {
        let folder = tempfile::tempdir().unwrap();
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        std::fs::write(folder.path().join("xaa.traineddata"), "").unwrap();
        let found = OcrProgram::new("/nowhere/everypage-ocr").with_data(folder.path());
        assert_eq!(found.data_for(&names(&["xaa"])), Ok(folder.path()));
        let missing = found.data_for(&names(&["xaa", "xbb_vert"])).unwrap_err();
        assert!(
            missing.contains("tesseract-ocr-xbb-vert") && !missing.contains("tesseract-ocr-xaa"),
            "{missing}"
        );
    }
}
