//! The part of a guest's plan that says between which addresses applications run.

use dumbbell_core::units::Duration;
use std::io;
use std::net::Ipv4Addr;
use std::str::FromStr;

/// A host in a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Name of its network namespace.
    pub space: String,
    /// Address in IPv4.
    pub address: Ipv4Addr,
}

/// A user of an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserPlan {
    /// Number of the responses of its first connection; then come its requests, and the other connections.
    pub number: u32,
    /// Connections that it may have at one time.
    pub connections: usize,
    /// By which way they send: the server, and the client.
    pub hosts: [Host; 2],
    /// Port of the client, by which the guest knows the base RTT and the way of packets.
    pub client_port: u16,
    /// The kernel's name of the congestion control; without one for datagrams.
    pub cc: Option<String>,
    /// Type of service, without ECN.
    pub tos: u32,
}

/// Applications of a guest's plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// In order.
    pub users: Vec<UserPlan>,
    /// How long everything goes on behind the end of the run.
    pub tail: Duration,
    /// The first port of receivers: those of senders are lower.
    pub receivers: u16,
}

fn wrong(line: &str) -> io::Error {
    io::Error::other(format!("plan: {line}"))
}

fn field<T: FromStr>(words: &[&str], at: usize, line: &str) -> io::Result<T> {
    words.get(at).and_then(|word| word.parse().ok()).ok_or_else(|| wrong(line))
}

impl Plan {
    /// Reads the lines `app NUMBER CONNECTIONS SPACE ADDRESS SPACE ADDRESS PORT CC|- TOS`, of server and client, `receivers PORT` and `tail NS` among
    /// others.
    ///
    /// # Errors
    /// A line that is not so.
    pub fn parse(text: &str) -> io::Result<Plan> {
        let mut plan = Plan { users: Vec::new(), tail: Duration::ZERO, receivers: u16::MAX };
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            match words[0] {
                "receivers" => plan.receivers = field(&words, 1, line)?,
                "tail" => plan.tail = Duration(field(&words, 1, line)?),
                "app" if words.len() == 10 => plan.users.push(UserPlan {
                    number: field(&words, 1, line)?,
                    connections: field(&words, 2, line)?,
                    hosts: [
                        Host { space: words[3].to_owned(), address: field(&words, 4, line)? },
                        Host { space: words[5].to_owned(), address: field(&words, 6, line)? },
                    ],
                    client_port: field(&words, 7, line)?,
                    cc: Some(words[8].to_owned()).filter(|cc| cc != "-"),
                    tos: field(&words, 9, line)?,
                }),
                "app" => return Err(wrong(line)),
                _ => {}
            }
        }
        Ok(plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_read_among_the_lines_of_other_programs() {
        let text =
            "mss 1448\nreceivers 32768\napp 4 6 S 10.1.0.1 R 10.2.0.2 33025 cubic 184\napp 16 1 R 10.2.0.1 S 10.1.0.1 33280 - 0\ntail 120\n";
        let plan = Plan::parse(text).expect("a plan");
        let host = |space: &str, address: [u8; 4]| Host { space: space.to_owned(), address: address.into() };
        assert_eq!((plan.tail, plan.receivers), (Duration(120), 32_768));
        assert_eq!(
            plan.users,
            [
                UserPlan {
                    number: 4,
                    connections: 6,
                    hosts: [host("S", [10, 1, 0, 1]), host("R", [10, 2, 0, 2])],
                    client_port: 33025,
                    cc: Some("cubic".to_owned()),
                    tos: 184,
                },
                UserPlan {
                    number: 16,
                    connections: 1,
                    hosts: [host("R", [10, 2, 0, 1]), host("S", [10, 1, 0, 1])],
                    client_port: 33280,
                    cc: None,
                    tos: 0,
                },
            ]
        );
        for line in [
            "receivers 65536",
            "app 4 6 S",
            "app x 6 S 10.1.0.1 R 10.2.0.2 33025 cubic 0",
            "app 4 6 S 10.1 R 10.2.0.2 33025 cubic 0",
        ] {
            assert!(Plan::parse(line).is_err_and(|error| error.to_string() == format!("plan: {line}")));
        }
    }
}
