//! The environment variables that the program reads besides the settings.

/// A variable of the program itself, for docs/settings.md.
pub struct Variable {
    pub name: &'static str,
    pub default: &'static str,
    pub accepted: &'static str,
    pub about: &'static str,
}

pub const PROGRAM_VARIABLES: [Variable; 7] = [
    Variable {
        name: "EVERYPAGE_BACKEND",
        default: "local",
        accepted: "local or aws",
        about: "where jobs run; `--backend` and `--stack` win",
    },
    Variable {
        name: "EVERYPAGE_STACK",
        default: "everypage",
        accepted: "a name",
        about: "stack on AWS; `--stack` wins",
    },
    Variable {
        name: "AWS_REGION",
        default: "the profile's",
        accepted: "a region",
        about: "region of the stack; `--region` wins",
    },
    Variable {
        name: "AWS_ENDPOINT_URL",
        default: "(not set)",
        accepted: "a URL",
        about: "AWS emulator; `--endpoint` wins",
    },
    Variable {
        name: "EVERYPAGE_PROGRAM",
        default: "everypage",
        accepted: "a command",
        about: "this program in the commands that it prints; the launcher `./everypage` sets it",
    },
    Variable {
        name: "EVERYPAGE_OCR_BUILDER",
        default: "(not set)",
        accepted: "a command",
        about: "builds the program `everypage-ocr` when the first page needs it; the launcher `./everypage` sets it",
    },
    Variable {
        name: "TESSDATA_PREFIX",
        default: "(not set)",
        accepted: "a folder",
        about: "language data of Tesseract; searched before the folders in which packages install it",
    },
];
