//! The backend that a command addresses.

use crate::{
    args::{BackendKind, Global},
    problem::Problem,
};

/// The name in docs/deploy.md.
const DEFAULT_STACK: &str = "everypage";

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    Local,
    Aws(StackAddress),
}

/// How to find a stack; the SDK finds profile and credentials itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackAddress {
    pub stack: String,
    pub region: Option<String>,
    /// URL of an emulator.
    pub endpoint: Option<String>,
}

impl Address {
    /// Options win over variables; naming a stack selects AWS.
    pub fn read(global: &Global, var: impl Fn(&str) -> Option<String>) -> Result<Self, Problem> {
        let given =
            |name: &str| var(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        let kind = match (global.backend, &global.stack, given("EVERYPAGE_BACKEND")) {
            (Some(kind), ..) => kind,
            (None, Some(_), _) => BackendKind::Aws,
            (None, None, None) => BackendKind::Local,
            (None, None, Some(named)) => named
                .parse()
                .map_err(|error| Problem::Usage(format!("EVERYPAGE_BACKEND can't be used: {error}")))?,
        };
        match kind {
            BackendKind::Local => match &global.stack {
                Some(stack) => Err(Problem::Usage(format!(
                    "--stack {stack} needs the backend aws; leave out --backend local"
                ))),
                None => Ok(Self::Local),
            },
            BackendKind::Aws => Ok(Self::Aws(StackAddress {
                stack: global
                    .stack
                    .clone()
                    .or_else(|| given("EVERYPAGE_STACK"))
                    .unwrap_or_else(|| DEFAULT_STACK.to_owned()),
                region: global.region.clone().or_else(|| given("AWS_REGION")),
                endpoint: global.endpoint.clone().or_else(|| given("AWS_ENDPOINT_URL")),
            })),
        }
    }
}

/// This program with the options that select the same backend, for commands that are shown.
pub fn program(global: &Global, var: impl Fn(&str) -> Option<String>) -> String {
    let mut words = vec![var("EVERYPAGE_PROGRAM").unwrap_or_else(|| "everypage".to_owned())];
    let backend = global.backend.map(|backend| backend.to_string());
    let options = [
        ("--backend", &backend),
        ("--stack", &global.stack),
        ("--region", &global.region),
        ("--endpoint", &global.endpoint),
    ];
    for (name, value) in options {
        if let Some(value) = value {
            words.extend([name.to_owned(), value.clone()]);
        }
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::Cli;

    fn global(words: &str) -> Global {
        let words = format!("everypage {words} breakers");
        Cli::try_parse_from(words.split_whitespace()).unwrap().global
    }

    fn read(words: &str, variables: &[(&str, &str)]) -> Result<Address, String> {
        let var = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, v)| (*v).into());
        Address::read(&global(words), var).map_err(|problem| problem.to_string())
    }

    fn stack(stack: &str, region: Option<&str>) -> Result<Address, String> {
        let region = region.map(str::to_owned);
        Ok(Address::Aws(StackAddress { stack: stack.into(), region, endpoint: None }))
    }

    #[test]
    fn options_win_over_variables_and_a_stack_means_aws() {
        assert_eq!(read("", &[]), Ok(Address::Local));
        assert_eq!(read("", &[("EVERYPAGE_STACK", "s")]), Ok(Address::Local));
        assert_eq!(read("--backend aws", &[]), stack("everypage", None));
        assert_eq!(read("--stack s", &[("AWS_REGION", "r")]), stack("s", Some("r")));
        assert_eq!(read("", &[("EVERYPAGE_BACKEND", "aws"), ("EVERYPAGE_STACK", "s")]), stack("s", None));
        assert_eq!(read("--region x --stack t", &[("AWS_REGION", "r")]), stack("t", Some("x")));
        assert_eq!(read("--backend local", &[("EVERYPAGE_BACKEND", "aws")]), Ok(Address::Local));
        assert!(read("", &[("EVERYPAGE_BACKEND", "gcp")]).unwrap_err().contains("local, aws"));
        assert!(read("--backend local --stack s", &[]).is_err());
    }

    #[test]
    fn a_shown_command_selects_the_same_backend() {
        assert_eq!(program(&global(""), |_| None), "everypage");
        assert_eq!(program(&global(""), |_| Some("./everypage".into())), "./everypage");
        let words = "--backend aws --stack s --endpoint http://127.0.0.1:1";
        assert_eq!(program(&global(words), |_| None), format!("everypage {words}"));
    }
}
