//! The environment variables that the program reads besides the settings.

/// A variable of the program itself, for docs/settings.md.
pub struct Variable {
    pub name: &'static str,
    pub default: &'static str,
    pub accepted: &'static str,
    pub about: &'static str,
}

pub const PROGRAM_VARIABLES: [Variable; 5] = [
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
];
