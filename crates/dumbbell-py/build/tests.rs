//! The hashes of the engines change with code, and with nothing else.

#[path = "code.rs"]
mod code;
#[path = "engines.rs"]
mod engines;

use code::{Code, Hash};
use engines::{hash, sources, Sources, MEASURING, NOT_MEASURING};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const BEFORE: &str = r#"
//! Adds.

use std::fmt;

params! {
    /// Parameters.
    pub struct Params {
        /// Acceptable delay.
        target: Duration = Duration::from_millis(5), unit "", source "RFC 8289";
    }
}

registered! {
    Codel: codel,
    #[cfg(test)]
    Follow: follow,
}

/// A sum.
pub fn sum(a: u32, b: u32) -> u32 {
    println!("sum {}", a);
    a + b * 2
}

#[cfg(test)]
const ONCE: [u32; 1] = { [1] };

struct State {
    sum: u32,
    #[cfg(test)]
    looked_at: Vec<u32>,
    last: u32,
}

#[cfg(test)]
mod tests {
    #[test]
    fn add_lines() {
        assert_eq!(super::sum(1, 2), 5);
    }
}
"#;

fn hash_text(text: &str) -> String {
    let mut hash = Hash::new();
    Code::parse(text).expect("tokens").hash(&mut hash);
    hash.hex()
}

fn hash_changed(from: &str, to: &str) -> String {
    assert_eq!(BEFORE.matches(from).count(), 1, "{from}");
    hash_text(&BEFORE.replace(from, to))
}

#[test]
fn it_is_that_of_fnv_1a() {
    // draft-eastlake-fnv: FNV-1a of 128 bits over "a" is d228cb696f1a8caf78912b704e4a8964
    let mut hash = Hash::new();
    hash.add(b"a");
    let [high, low] = [0xd228_cb69_6f1a_8caf_u64, 0x7891_2b70_4e4a_8964];
    let folded = high ^ low;
    assert_eq!(hash.hex(), format!("{:08x}", (folded >> 32) as u32 ^ folded as u32));
}

#[test]
fn comments_documentation_white_space_and_tests_leave_it() {
    let before = hash_text(BEFORE);
    for (from, to) in [
        ("//! Adds.\n", ""),
        ("//! Adds.", "//! Adds two numbers.\n//!\n//! Twice the second."),
        ("/// A sum.", "// A sum.\n#[doc = \"of two\"]\n#[doc(hidden)]"),
        ("        /// Acceptable delay.\n", ""),
        ("/// Acceptable delay.", "/// Acceptable standing queue.\n/// For a while."),
        ("/// Parameters.", "/** All parameters. */"),
        ("a + b * 2", "a /* the first */ + b * 2 // twice"),
        ("(a: u32, b: u32) -> u32 {", "(a: u32,\n    b: u32)\n    -> u32\n{"),
        ("target: Duration = Duration::from_millis(5)", "target :  Duration\n  = Duration :: from_millis( 5 )"),
        ("super::sum(1, 2), 5", "super::sum(1, 3), 7"),
        ("mod tests {", "mod other_tests { use super::*;"),
        ("#[cfg(test)]\nmod tests {", "#[cfg(all(test, target_os = \"linux\"))]\n#[allow(unused)]\nmod tests {"),
        ("    #[cfg(test)]\n    Follow: follow,\n", ""),
        ("    #[cfg(test)]\n    looked_at: Vec<u32>,\n", ""),
        ("{ [1] }", "{ [2] }"),
    ] {
        assert_eq!(hash_changed(from, to), before, "{from} -> {to}");
    }
}

#[test]
fn constants_operators_literals_and_names_change_it() {
    let mut seen = BTreeSet::from([hash_text(BEFORE)]);
    for (from, to) in [
        ("b * 2", "b * 3"),
        ("a + b", "a - b"),
        ("sum {}", "sum: {}"),
        ("pub fn sum", "pub fn total"),
        ("from_millis(5)", "from_millis(6)"),
        ("\"RFC 8289\"", "\"RFC 8290\""),
        ("Codel: codel", "Codel: pie"),
        ("#[cfg(test)]\nconst ONCE", "const ONCE"),
        ("    #[cfg(test)]\n    looked_at", "    looked_at"),
        ("    last: u32", "    last: u64"),
        ("#[cfg(test)]\nmod tests", "#[cfg(not(test))]\nmod tests"),
        ("#[cfg(test)]\nmod tests", "#[cfg(any(test, unix))]\nmod tests"),
        ("a + b * 2", "(a + b) * 2"),
    ] {
        assert!(seen.insert(hash_changed(from, to)), "{from} -> {to}");
    }
}

#[test]
fn files_of_tests_do_not_count_and_names_of_others_do() {
    let folder = std::env::temp_dir().join(format!("dumbbell-code-{}", std::process::id()));
    let write = |path: &str, text: &str| {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    };
    write("lib.rs", "pub mod tcp; pub mod cc; #[cfg(test)] mod testing;");
    write("testing.rs", "pub fn help() {}");
    write("tcp/mod.rs", "#[cfg(test)] pub(crate) mod tests; mod timer;");
    write("tcp/tests/mod.rs", "mod window;");
    write("tcp/tests/window.rs", "");
    write("tcp/timer.rs", "#[cfg(test)]\nmod tests;\npub struct Timer;");
    write("tcp/timer/tests.rs", "");
    write("cc.rs", "registered! { #[cfg(test)] Follow: follow }");
    write("cc/follow.rs", "//! For tests.\n#![cfg(test)]\npub struct State;");
    let found = code::files(&folder).expect("files");
    fs::remove_dir_all(&folder).expect("a folder");
    assert_eq!(found.keys().collect::<Vec<_>>(), ["cc.rs", "lib.rs", "tcp/mod.rs", "tcp/timer.rs"]);
    let before = hash(&found);
    let mut moved = found;
    let timer = moved.remove("tcp/timer.rs").expect("a file");
    moved.insert("tcp/clock.rs".to_owned(), timer);
    assert_ne!(hash(&moved), before);
}

/// Every path in `tokens` that begins with one of `roots`: of `use a::{b, c::d}` both.
fn paths(tokens: TokenStream, roots: &[&str], found: &mut BTreeSet<Vec<String>>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    for (place, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Ident(word) if roots.contains(&word.to_string().as_str()) => {
                path_from(&tokens[place + 1..], vec![word.to_string()], found);
            }
            TokenTree::Group(group) => paths(group.stream(), roots, found),
            _ => {}
        }
    }
}

fn path_from(rest: &[TokenTree], so_far: Vec<String>, found: &mut BTreeSet<Vec<String>>) {
    let is_colon = |token: Option<&TokenTree>| matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == ':');
    if !(is_colon(rest.first()) && is_colon(rest.get(1))) {
        found.insert(so_far);
        return;
    }
    match rest.get(2) {
        Some(TokenTree::Ident(word)) => {
            let longer = so_far.into_iter().chain([word.to_string()]).collect();
            path_from(&rest[3..], longer, found);
        }
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
            let inside: Vec<TokenTree> = group.stream().into_iter().collect();
            for one in inside.split(|token| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ',')) {
                if let Some(TokenTree::Ident(word)) = one.first() {
                    let longer = so_far.iter().cloned().chain([word.to_string()]).collect();
                    path_from(&one[1..], longer, found);
                }
            }
        }
        _ => {
            found.insert(so_far);
        }
    }
}

/// The file in which a path of the crate `name` ends.
fn file_of(name: &str, path: &[String], all: &Sources) -> String {
    (1..path.len() + 1)
        .rev()
        .flat_map(|length| {
            let joined = path[..length].join("/");
            [format!("{name}/{joined}.rs"), format!("{name}/{joined}/mod.rs")]
        })
        .find(|file| all.contains_key(file))
        .unwrap_or_else(|| format!("{name}/lib.rs"))
}

#[test]
fn what_measures_a_capture_is_named_whole() {
    let mut all = Sources::new();
    for name in ["dumbbell-core", "dumbbell-config", "dumbbell-measure"] {
        all.extend(sources(Path::new(env!("CARGO_MANIFEST_DIR")), name).expect("sources").1);
    }
    let mut reached = BTreeSet::from(["dumbbell-measure/from_capture.rs".to_owned(), "dumbbell-config/schedule.rs".to_owned()]);
    let mut to_do: Vec<String> = reached.iter().cloned().collect();
    while let Some(file) = to_do.pop() {
        if NOT_MEASURING.iter().any(|(other, _)| *other == file) {
            continue;
        }
        let (own, below) = file.split_once('/').expect("crate and path");
        let mut named = BTreeSet::new();
        paths(
            all[&file].tokens.iter().cloned().collect(),
            &["crate", "dumbbell_core", "dumbbell_config", "super", "self"],
            &mut named,
        );
        for path in named {
            let parts = below.split('/').filter(|&part| part != "lib.rs");
            let folder: Vec<String> = parts.map(|part| part.trim_end_matches(".rs").to_owned()).collect();
            let target = match path[0].as_str() {
                "crate" => file_of(own, &path[1..], &all),
                of @ ("dumbbell_core" | "dumbbell_config") => file_of(&of.replace('_', "-"), &path[1..], &all),
                // `self` alone is a method's
                "super" => file_of(own, &[&folder[..folder.len() - 1], &path[1..]].concat(), &all),
                _ if path.len() > 1 => file_of(own, &[&folder[..], &path[1..]].concat(), &all),
                _ => continue,
            };
            if reached.insert(target.clone()) {
                to_do.push(target);
            }
        }
    }
    let listed: BTreeSet<String> =
        MEASURING.iter().copied().chain(NOT_MEASURING.iter().map(|(file, _)| *file)).map(str::to_owned).collect();
    assert_eq!(listed.len(), MEASURING.len() + NOT_MEASURING.len(), "a file that is named twice");
    let missing: Vec<_> = reached.difference(&listed).collect();
    let stale: Vec<_> = listed.difference(&reached).collect();
    assert!(missing.is_empty() && stale.is_empty(), "missing in the lists: {missing:?}; named by nothing: {stale:?}");
    assert!(NOT_MEASURING.iter().all(|(_, reason)| !reason.is_empty()));
}
