//! Extracts the code of a crate's sources: tokens without comments and tests, and a hash of them.
//!
//! The hash is part of the keys of runs, so that results of a changed engine are never taken for results of the old one. It
//! leaves out what cannot change a result: comments, documentation, white space, items under `#[cfg(test)]`, and files
//! that only tests have. It depends on nothing that changes with a release of Rust.

use proc_macro2::{Delimiter, Group, Spacing, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

/// FNV-1a, 128 bits (draft-eastlake-fnv).
pub struct Hash(u128);

impl Hash {
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

    /// Returns the hash of no code.
    pub fn new() -> Hash {
        Hash(Hash::BASIS)
    }

    /// Adds bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u128::from(byte)).wrapping_mul(Hash::PRIME);
        }
    }

    fn token(&mut self, kind: u8, text: &str) {
        self.add(&[kind]);
        self.add(text.as_bytes());
        self.add(&[0]);
    }

    /// Eight digits in hexadecimal: all bits, folded.
    pub fn hex(&self) -> String {
        let half = self.0 as u64 ^ (self.0 >> 64) as u64;
        format!("{:08x}", half as u32 ^ (half >> 32) as u32)
    }
}

/// A source file without comments, documentation and tests.
pub struct Code {
    /// Tokens of the code.
    pub tokens: Vec<TokenTree>,
    /// Modules in files of their own that are declared for tests.
    test_modules: Vec<String>,
    /// Whether all of the file is for tests: `#![cfg(test)]`.
    only_tests: bool,
}

impl Code {
    /// Reads the code of the text of a file.
    ///
    /// # Errors
    /// The error in its tokens.
    pub fn parse(text: &str) -> Result<Code, String> {
        let all: TokenStream = text.parse().map_err(|error| format!("{error}"))?;
        let mut code = Code { tokens: Vec::new(), test_modules: Vec::new(), only_tests: false };
        code.tokens = code.strip(all, true);
        Ok(code)
    }

    fn strip(&mut self, all: TokenStream, top: bool) -> Vec<TokenTree> {
        let all: Vec<TokenTree> = all.into_iter().collect();
        let mut kept = Vec::with_capacity(all.len());
        let mut next = 0;
        while let Some(token) = all.get(next) {
            if let Some((attribute, inner, after)) = attribute(&all, next) {
                if is_doc(attribute) {
                    next = after;
                    continue;
                }
                if is_cfg_test(attribute) {
                    self.only_tests |= inner && top;
                    next = end_of_item(&all, after);
                    self.test_modules.extend(declared_module(&all[after..next]));
                    continue;
                }
            }
            kept.push(match token {
                TokenTree::Group(group) => {
                    let inside = self.strip(group.stream(), false);
                    Group::new(group.delimiter(), inside.into_iter().collect()).into()
                }
                other => other.clone(),
            });
            next += 1;
        }
        kept
    }

    /// Adds all tokens to `hash`.
    pub fn hash(&self, hash: &mut Hash) {
        add_tokens(self.tokens.iter().cloned(), hash);
    }
}

fn add_tokens(tokens: impl IntoIterator<Item = TokenTree>, hash: &mut Hash) {
    for token in tokens {
        match token {
            TokenTree::Ident(word) => hash.token(b'i', &word.to_string()),
            TokenTree::Literal(literal) => hash.token(b'l', &literal.to_string()),
            TokenTree::Punct(punct) => {
                hash.token(if punct.spacing() == Spacing::Joint { b'j' } else { b'p' }, &punct.as_char().to_string());
            }
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                hash.token(b'g', open);
                add_tokens(group.stream(), hash);
                hash.token(b'g', close);
            }
        }
    }
}

/// The attribute at `at`, whether it is an inner one (`#![…]`), and the place behind it.
fn attribute(all: &[TokenTree], at: usize) -> Option<(&Group, bool, usize)> {
    let is = |place: usize, sign: char| matches!(all.get(place), Some(TokenTree::Punct(punct)) if punct.as_char() == sign);
    if !is(at, '#') {
        return None;
    }
    let inner = is(at + 1, '!');
    let place = at + 1 + usize::from(inner);
    match all.get(place) {
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Bracket => Some((group, inner, place + 1)),
        _ => None,
    }
}

fn is_word(token: Option<&TokenTree>, word: &str) -> bool {
    matches!(token, Some(TokenTree::Ident(one)) if one == word)
}

fn is_doc(attribute: &Group) -> bool {
    is_word(attribute.stream().into_iter().next().as_ref(), "doc")
}

/// Whether an attribute is `cfg(test)`, or `cfg(all(…))` with `test` among its conditions.
fn is_cfg_test(attribute: &Group) -> bool {
    let inside: Vec<TokenTree> = attribute.stream().into_iter().collect();
    let Some(TokenTree::Group(conditions)) = inside.get(1).filter(|_| is_word(inside.first(), "cfg")) else { return false };
    let conditions: Vec<TokenTree> = conditions.stream().into_iter().collect();
    match conditions.get(1) {
        None => is_word(conditions.first(), "test"),
        Some(TokenTree::Group(all)) if is_word(conditions.first(), "all") => {
            let all: Vec<TokenTree> = all.stream().into_iter().collect();
            all.split(|token| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ','))
                .any(|condition| condition.len() == 1 && is_word(condition.first(), "test"))
        }
        Some(_) => false,
    }
}

/// The place behind what an attribute that ends at `from` stands at: an item, a statement, a field, a variant or an arm.
fn end_of_item(all: &[TokenTree], from: usize) -> usize {
    let mut next = from;
    while let Some((_, _, after)) = attribute(all, next) {
        next = after;
    }
    let mut first = next;
    while is_word(all.get(first), "pub") || matches!(all.get(first), Some(TokenTree::Group(_))) {
        first += 1;
    }
    // these end with a semicolon, whatever braces they have; a field or variant with a comma
    let by_semicolon = ["use", "const", "static", "let", "type"].iter().any(|word| is_word(all.get(first), word));
    let has_body = ["fn", "mod", "struct", "enum", "impl", "trait", "unsafe", "macro_rules", "extern", "async"];
    let has_body = has_body.iter().any(|word| is_word(all.get(first), word));
    let constant_function = is_word(all.get(first), "const") && is_word(all.get(first + 1), "fn");
    let block = matches!(all.get(next), Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace);
    while let Some(token) = all.get(next) {
        next += 1;
        match token {
            TokenTree::Punct(punct) if punct.as_char() == ';' => break,
            TokenTree::Punct(punct) if punct.as_char() == ',' && !by_semicolon && !has_body => break,
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace && (has_body || constant_function || block) => {
                break;
            }
            _ => {}
        }
    }
    next
}

/// The name in `mod name;`.
fn declared_module(item: &[TokenTree]) -> Option<String> {
    let at = item.iter().position(|token| is_word(Some(token), "mod"))?;
    match (item.get(at + 1), item.get(at + 2)) {
        (Some(TokenTree::Ident(name)), Some(TokenTree::Punct(end))) if end.as_char() == ';' => Some(name.to_string()),
        _ => None,
    }
}

/// The files of a crate's `src` that are not for tests alone: path below it, with `/`, and code.
///
/// # Errors
/// A file that cannot be read, or is no Rust.
pub fn files(src: &Path) -> io::Result<BTreeMap<String, Code>> {
    let mut paths = Vec::new();
    walk(src, &mut paths)?;
    let mut found = BTreeMap::new();
    let mut tests = BTreeSet::new();
    for path in paths {
        let below = path.strip_prefix(src).map_err(io::Error::other)?;
        let name = below.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("/");
        let text = fs::read_to_string(&path)?;
        let code = Code::parse(&text).map_err(|error| io::Error::other(format!("{}: {error}", path.display())))?;
        let folder = match name.rsplit_once('/') {
            _ if name == "lib.rs" => String::new(),
            Some((folder, "mod.rs")) => format!("{folder}/"),
            _ => format!("{}/", name.trim_end_matches(".rs")),
        };
        tests.extend(code.test_modules.iter().map(|module| format!("{folder}{module}")));
        if code.only_tests {
            tests.insert(name.trim_end_matches(".rs").to_owned());
        }
        found.insert(name, code);
    }
    let is_of = |name: &str, module: &String| {
        name.strip_prefix(module.as_str()).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
    };
    found.retain(|name, _| !tests.iter().any(|module| is_of(name, module)));
    Ok(found)
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            walk(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    Ok(())
}
