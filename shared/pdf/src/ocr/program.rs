//! Where the OCR program and its language data are.

use std::{
    collections::BTreeMap,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;
use tempfile::TempDir;

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
    /// Folders with links to data of several folders, by the names of the languages: Tesseract takes one folder.
    linked: Arc<Mutex<BTreeMap<Vec<String>, Arc<TempDir>>>>,
}

impl OcrProgram {
    /// `program` is the file of `everypage-ocr`. Language data may be in `tessdata` next to it, and where packages
    /// install it.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        let program = program.into();
        let own = program.parent().map(|folder| folder.join("tessdata"));
        let data = own.into_iter().chain(DATA_FOLDERS.map(PathBuf::from)).collect();
        Self { program, data, builder: None, linked: Arc::default() }
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

    /// A folder that has the data of all `languages`: one of those above, or one with links to the files.
    pub(super) fn data_for(&self, languages: &[String]) -> Result<PathBuf, String> {
        let file = |folder: &Path, name: &String| folder.join(format!("{name}.traineddata"));
        let has = |folder: &Path, name: &String| file(folder, name).is_file();
        if let Some(complete) = self.data.iter().find(|folder| languages.iter().all(|name| has(folder, name)))
        {
            return Ok(complete.clone());
        }
        let found: Vec<(&String, Option<&PathBuf>)> =
            languages.iter().map(|name| (name, self.data.iter().find(|folder| has(folder, name)))).collect();
        let missing: Vec<&str> =
            found.iter().filter(|(_, folder)| folder.is_none()).map(|(name, _)| name.as_str()).collect();
        if let Some(first) = missing.first() {
            let packages: Vec<String> =
                missing.iter().map(|name| format!("tesseract-ocr-{}", name.replace('_', "-"))).collect();
            return Err(format!(
                "there is no language data for {}: install {} (Debian, Ubuntu), or set TESSDATA_PREFIX to the folder with {first}.traineddata",
                missing.join(" and "),
                packages.join(" "),
            ));
        }
        let mut linked = self.linked.lock();
        if let Some(folder) = linked.get(languages) {
            return Ok(folder.path().to_owned());
        }
        let failed =
            |error: std::io::Error| format!("the data of {} can't be linked: {error}", languages.join("+"));
        let folder = tempfile::tempdir().map_err(failed)?;
        for (name, from) in found {
            if let Some(from) = from {
                symlink(file(from, name), file(folder.path(), name)).map_err(failed)?;
            }
        }
        let path = folder.path().to_owned();
        linked.insert(languages.to_vec(), Arc::new(folder));
        Ok(path)
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
        assert_eq!(found.data_for(&names(&["xaa"])), Ok(folder.path().to_owned()));
        let missing = found.data_for(&names(&["xaa", "xbb_vert"])).unwrap_err();
        assert!(
            missing.contains("tesseract-ocr-xbb-vert") && !missing.contains("tesseract-ocr-xaa"),
            "{missing}"
        );
    }

    #[test]
    fn languages_of_several_folders_are_linked_into_one() {
        let (own, layer) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(own.path().join("xaa.traineddata"), "a").unwrap();
        std::fs::write(layer.path().join("xbb.traineddata"), "b").unwrap();
        let program = OcrProgram::new("/nowhere/everypage-ocr").with_data(own.path()).with_data(layer.path());
        let both = ["xaa".to_owned(), "xbb".to_owned()];
        let folder = program.data_for(&both).unwrap();
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
        assert_eq!((read("xaa.traineddata"), read("xbb.traineddata")), ("a".into(), "b".into()));
        assert_eq!(program.clone().data_for(&both), Ok(folder));
    }
}
