//! The program `everypage`; see the library of the same name.

fn main() -> std::process::ExitCode {
    everypage::main()
}
