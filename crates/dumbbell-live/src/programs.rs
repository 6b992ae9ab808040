//! Programs in the namespaces, and that none of them outlives the process.
#![allow(unsafe_code)] // what a program does between fork and exec, and one prctl

use crate::namespaces::Namespace;
use nix::mount::{mount, umount2, MntFlags, MsFlags};
use nix::sched::{unshare, CloneFlags};
use nix::sys::signal::{kill, Signal};
use nix::sys::wait::{waitpid, WaitPidFlag, WaitStatus};
use nix::unistd::Pid;
use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// Files in place of the host's, for one program: path and content.
pub type HostFiles = Vec<(String, String)>;

/// An event in the life of a program.
#[derive(Debug)]
pub enum ProgramEvent {
    /// The program runs, as this process.
    Began(i32),
    /// The program could not be started.
    Refused(io::Error),
    /// The program has ended.
    Ended(ExitStatus),
}

/// Runs `command` in `place`, with `files` in place of the host's if that can be done, and says to `news` what becomes of it. Returns when it
/// is over: the calling thread stays in the namespaces of the program, and the program ends with that thread.
pub fn run(place: &Namespace, files: &HostFiles, command: &mut Command, news: &Sender<ProgramEvent>) {
    let mut begin = || {
        place.enter()?;
        if let Err(error) = put(files) {
            eprintln!(
                "dumbbell: the names far and host are not known ({error}); DUMBBELL_FAR and DUMBBELL_HOST are their addresses"
            );
        }
        // SAFETY: between fork and exec this makes one system call, prctl(2), with numbers alone.
        unsafe {
            command.pre_exec(|| {
                if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong, 0, 0, 0) < 0 {
                    return Err(io::Error::last_os_error());
                }
                Ok(())
            });
        }
        command.spawn()
    };
    let _ = match begin() {
        Err(error) => news.send(ProgramEvent::Refused(error)),
        Ok(mut child) => {
            let _ = news.send(ProgramEvent::Began(child.id() as i32));
            // it has been waited for by `end_descendants` if this fails
            news.send(ProgramEvent::Ended(child.wait().unwrap_or(ExitStatus::from_raw(0))))
        }
    };
}

/// A command for the far end: a line for the shell, which reads nothing and writes to standard error.
///
/// # Errors
/// Standard error is closed.
pub fn server(line: &std::ffi::OsStr) -> io::Result<Command> {
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(line).stdin(Stdio::null()).stdout(Stdio::from(io::stderr().as_fd().try_clone_to_owned()?));
    Ok(command)
}

/// Puts `files` over those of the host, in a mount namespace of the calling thread.
fn put(files: &HostFiles) -> io::Result<()> {
    const NONE: Option<&str> = None;
    // some place in which the files are made; in this namespace it is so only until they are in their own places
    const WORKSHOP: &str = "/tmp";
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_SLAVE, NONE)?;
    mount(Some("tmpfs"), WORKSHOP, Some("tmpfs"), MsFlags::empty(), Some("mode=755"))?;
    let place = |(number, (path, content)): (usize, &(String, String))| {
        let made = format!("{WORKSHOP}/{number}");
        std::fs::write(&made, content)?;
        Ok(mount(Some(made.as_str()), path.as_str(), NONE, MsFlags::MS_BIND, NONE)?)
    };
    let placed: io::Result<()> = files.iter().enumerate().try_for_each(place);
    umount2(WORKSHOP, MntFlags::MNT_DETACH)?;
    placed
}

/// Whether programs in `place` listen at `count` sockets or more, TCP or UDP.
pub fn listen_at(place: &Namespace, count: usize) -> bool {
    let sockets = || {
        let lines = |name: &str| std::fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default();
        // the fourth word is the state, 0A is TCP_LISTEN (linux/tcp_states.h)
        let listening = |name| lines(name).lines().skip(1).filter(|line| line.split_whitespace().nth(3) == Some("0A")).count();
        let bound = |name| lines(name).lines().skip(1).count();
        Ok(listening("tcp") + listening("tcp6") + bound("udp") + bound("udp6"))
    };
    place.run_inside(sockets).is_ok_and(|found| found >= count)
}

/// From now on this process is the parent of whatever its descendants leave behind, so that [`end_descendants`] finds it.
pub fn become_subreaper() {
    // SAFETY: prctl(2) with numbers alone.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1_u64, 0, 0, 0) };
}

/// The processes below this one that are not over.
fn descendants() -> Vec<Pid> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        // proc_pid_stat(5): "pid (name) state parent"; the name may hold anything
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let mut words = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
        if let (Some(state), Some(Ok(parent))) = (words.next(), words.next().map(str::parse)) {
            if state != "Z" {
                children.entry(parent).or_default().push(pid);
            }
        }
    }
    let mut found = children.remove(&(std::process::id() as i32)).unwrap_or_default();
    let mut looked_at = 0;
    while let Some(&parent) = found.get(looked_at) {
        found.extend(children.remove(&parent).unwrap_or_default());
        looked_at += 1;
    }
    found.into_iter().map(Pid::from_raw).collect()
}

/// Ends all processes below this one: asks them to, and after `patience` ends those that are left.
pub fn end_descendants(patience: Duration) {
    let began = Instant::now();
    let signal = |which: &[Signal]| {
        for pid in descendants() {
            for &one in which {
                let _ = kill(pid, one);
            }
        }
    };
    signal(&[Signal::SIGHUP, Signal::SIGTERM, Signal::SIGCONT]);
    loop {
        while waitpid(None, Some(WaitPidFlag::WNOHANG)).is_ok_and(|status| status != WaitStatus::StillAlive) {}
        if descendants().is_empty() {
            return;
        }
        if began.elapsed() >= patience {
            signal(&[Signal::SIGKILL]);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
