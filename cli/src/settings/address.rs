//! Which engine a command is meant for.

use crate::{
    args::{EngineKind, Global},
    problem::Problem,
};

/// As deployed by the steps in docs/deploy.md.
const STACK: &str = "everypage";

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    Local,
    Aws(StackAddress),
}

/// A stack, as far as it must be told; profile and credentials are the SDK's own business.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackAddress {
    pub stack: String,
    pub region: Option<String>,
    /// An emulator's.
    pub endpoint: Option<String>,
}

impl Address {
    /// Options count more than variables; who names a stack means AWS.
    pub fn read(global: &Global, var: impl Fn(&str) -> Option<String>) -> Result<Self, Problem> {
        let given =
            |name: &str| var(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        let kind = match (global.engine, &global.stack, given("EVERYPAGE_ENGINE")) {
            (Some(kind), ..) => kind,
            (None, Some(_), _) => EngineKind::Aws,
            (None, None, None) => EngineKind::Local,
            (None, None, Some(named)) => named.parse().map_err(|error| {
                Problem::Usage(format!("EVERYPAGE_ENGINE is {named:?}, which can't be used: {error}"))
            })?,
        };
        match kind {
            EngineKind::Local => match &global.stack {
                Some(stack) => {
                    Err(Problem::Usage(format!("a stack ({stack}) is on AWS, not on the local engine")))
                }
                None => Ok(Self::Local),
            },
            EngineKind::Aws => Ok(Self::Aws(StackAddress {
                stack: global
                    .stack
                    .clone()
                    .or_else(|| given("EVERYPAGE_STACK"))
                    .unwrap_or_else(|| STACK.to_owned()),
                region: global.region.clone().or_else(|| given("AWS_REGION")),
                endpoint: global.endpoint.clone().or_else(|| given("AWS_ENDPOINT_URL")),
            })),
        }
    }
}

/// This program with the options that lead to the same engine, for commands that are shown to be run.
pub fn program(global: &Global) -> String {
    let mut words = vec!["everypage".to_owned()];
    let engine = global.engine.map(|engine| engine.to_string());
    let options = [
        ("--engine", &engine),
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
    fn the_nearest_word_on_the_engine_counts() {
        assert_eq!(read("", &[]), Ok(Address::Local));
        assert_eq!(read("", &[("EVERYPAGE_STACK", "s")]), Ok(Address::Local));
        assert_eq!(read("--engine aws", &[]), stack("everypage", None));
        assert_eq!(read("--stack s", &[("AWS_REGION", "r")]), stack("s", Some("r")));
        assert_eq!(read("", &[("EVERYPAGE_ENGINE", "aws"), ("EVERYPAGE_STACK", "s")]), stack("s", None));
        assert_eq!(read("--region x --stack t", &[("AWS_REGION", "r")]), stack("t", Some("x")));
        assert_eq!(read("--engine local", &[("EVERYPAGE_ENGINE", "aws")]), Ok(Address::Local));
        assert!(read("", &[("EVERYPAGE_ENGINE", "gcp")]).unwrap_err().contains("local or aws"));
        assert!(read("--engine local --stack s", &[]).is_err());
    }

    #[test]
    fn a_shown_command_leads_to_the_same_engine() {
        assert_eq!(program(&global("")), "everypage");
        let words = "--engine aws --stack s --endpoint http://127.0.0.1:1";
        assert_eq!(program(&global(words)), format!("everypage {words}"));
    }
}
