//! The parser process as a separate program, for tests and benchmarks.

use std::{
    fs::{self, File, OpenOptions},
    net::{TcpListener, TcpStream, UdpSocket},
    os::unix::net::UnixStream,
    process::Command,
    thread,
};

/// Started with this argument and the process id of another process, the program tries what a parser must not be
/// able to do.
const TRY_TO_ESCAPE: &str = "try-to-escape";

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    match (arguments.next().as_deref(), arguments.next()) {
        (Some(TRY_TO_ESCAPE), Some(other)) => {
            try_to_escape(&other);
            Ok(())
        }
        _ => everypage_pdf::child::run(),
    }
}

/// Prints what succeeded.
fn try_to_escape(other: &str) {
    everypage_confine::close_descriptors();
    everypage_confine::drop_rights();
    everypage_confine::seal(1 << 30);
    let own = std::process::id();
    let attempts: [(&str, bool); 13] = [
        ("read a file", fs::read("/etc/passwd").is_ok()),
        ("list a folder", fs::read_dir("/").is_ok()),
        ("write a file", File::create(format!("/tmp/escaped-{own}")).is_ok()),
        ("open a device", OpenOptions::new().write(true).open("/dev/null").is_ok()),
        (
            "delete a file",
            fs::remove_file("/tmp/no-such-file").is_err_and(|error| error.raw_os_error() == Some(2)),
        ),
        ("read the environment of another process", fs::read(format!("/proc/{other}/environ")).is_ok()),
        ("read the memory of another process", File::open(format!("/proc/{other}/mem")).is_ok()),
        ("signal another process", kill(other)),
        ("start a process", Command::new("/bin/true").spawn().is_ok()),
        ("start a thread", thread::Builder::new().spawn(|| {}).is_ok()),
        ("connect", TcpStream::connect("127.0.0.1:9").is_err_and(|error| error.raw_os_error() == Some(111))),
        ("listen", TcpListener::bind("127.0.0.1:0").is_ok() || UdpSocket::bind("127.0.0.1:0").is_ok()),
        ("make a socket pair", UnixStream::pair().is_ok()),
    ];
    for (what, succeeded) in attempts {
        println!("{what}: {}", if succeeded { "possible" } else { "refused" });
    }
}

/// Signal 0 only checks whether the process may be signalled.
fn kill(process: &str) -> bool {
    let pid = process.parse().ok().and_then(rustix::process::Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid).is_ok())
}
