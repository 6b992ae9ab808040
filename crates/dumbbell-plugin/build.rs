//! Derives the interface in Rust from `include/dumbbell.h`, its one source: `abi.rs` has the constants and types, `fields.rs` a macro with the fields of
//! each struct, and `layout.rs` what the test of the layout compares with a C compiler.

use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

/// A word or sign of the header, with the comments before it and on its line after it.
#[derive(Default)]
struct Token {
    text: String,
    before: String,
    after: String,
}

/// A function has its types here: those of the arguments with their names, and that of the result.
enum Type {
    Plain(String),
    Function(Vec<Field>, String),
}

struct Field {
    name: String,
    doc: String,
    kind: Type,
}

struct Struct {
    name: String,
    doc: String,
    fields: Vec<Field>,
}

/// Splits the header, without its lines for the preprocessor.
fn split(header: &str) -> Vec<Token> {
    let mut tokens: Vec<Token> = Vec::new();
    let (mut rest, mut before, mut is_new_line) = (header, String::new(), true);
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let len = if let Some(comment) = rest.strip_prefix("/*") {
            let len = comment.find("*/").expect("a comment ends");
            let words: Vec<&str> = comment[..len].split_whitespace().filter(|word| *word != "*").collect();
            match tokens.last_mut() {
                // a heading is the doc of nothing
                _ if words.first() == Some(&"---") => {}
                Some(token) if !is_new_line => token.after = words.join(" "),
                _ => before = words.join(" "),
            }
            len + 4
        } else if first == '#' {
            // the only code between its lines is for C++; a comment before them is no struct's
            before.clear();
            let end = if rest.starts_with("#ifdef") { "#endif" } else { "\n" };
            rest.find(end).map_or(rest.len(), |at| at + end.len())
        } else if first.is_whitespace() {
            is_new_line |= first == '\n';
            1
        } else {
            let len = rest.find(|c| !is_word(c)).unwrap_or(rest.len()).max(1);
            tokens.push(Token { text: rest[..len].to_owned(), before: std::mem::take(&mut before), after: String::new() });
            is_new_line = false;
            len
        };
        rest = &rest[len..];
    }
    tokens
}

/// Reads declarations one after the other; panics where the header has what no declaration of this interface needs.
struct Reader {
    tokens: std::iter::Peekable<std::vec::IntoIter<Token>>,
}

impl Reader {
    fn next(&mut self) -> Token {
        self.tokens.next().expect("the header goes on")
    }

    fn take(&mut self, text: &str) -> bool {
        self.tokens.next_if(|token| token.text == text).is_some()
    }

    fn expect(&mut self, text: &str) -> Token {
        let found = self.next();
        assert_eq!(found.text, text);
        found
    }

    fn is_next_word(&mut self) -> bool {
        self.tokens.peek().is_some_and(|token| token.text.starts_with(|c: char| c.is_ascii_alphabetic()))
    }

    /// Reads a type, and the name behind it if there is one.
    fn declared(&mut self) -> Field {
        let mut is_const = self.take("const");
        let mut kind = in_rust(&self.next().text);
        is_const |= self.take("const");
        while self.take("*") {
            let behind = if kind == "()" { "c_void" } else { &kind };
            kind = format!("*{} {behind}", if is_const { "const" } else { "mut" });
            is_const = self.take("const");
        }
        if self.take("(") {
            self.expect("*");
            let name = self.next().text;
            self.expect(")");
            self.expect("(");
            let mut arguments = vec![self.declared()];
            while self.take(",") {
                arguments.push(self.declared());
            }
            self.expect(")");
            return Field { name, doc: String::new(), kind: Type::Function(arguments, kind) };
        }
        let name = if self.is_next_word() { self.next().text } else { String::new() };
        Field { name, doc: String::new(), kind: Type::Plain(kind) }
    }

    fn fields(&mut self) -> Vec<Field> {
        let mut fields = Vec::new();
        self.expect("{");
        while !self.take("}") {
            let before = self.tokens.peek().map_or(String::new(), |token| token.before.clone());
            let mut line = vec![self.declared()];
            while self.take(",") {
                let Type::Plain(kind) = &line[0].kind else { panic!("one function a declaration") };
                line.push(Field { name: String::new(), doc: String::new(), kind: Type::Plain(kind.clone()) });
                line.last_mut().expect("the one above").name = self.next().text;
            }
            let after = self.expect(";").after;
            let doc = [before, after].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
            fields.extend(line.into_iter().map(|field| Field { doc: doc.clone(), ..field }));
        }
        fields
    }

    /// Reads all structs of the header.
    fn structs(mut self) -> Vec<Struct> {
        let mut structs = Vec::new();
        while let Some(Token { text, before: doc, .. }) = self.tokens.next() {
            match text.as_str() {
                "typedef" if self.take("struct") => {
                    if self.is_next_word() {
                        // the name of a struct that follows
                        let named = self.next().text;
                        self.expect(&named);
                    } else {
                        let fields = self.fields();
                        structs.push(Struct { name: self.next().text, doc, fields });
                    }
                }
                "typedef" => drop(self.declared()),
                "struct" => structs.push(Struct { name: self.next().text, doc, fields: self.fields() }),
                "const" => {
                    while self.tokens.peek().is_some_and(|token| token.text != ";") {
                        self.next();
                    }
                }
                other => panic!("{other} in dumbbell.h"),
            }
            self.expect(";");
        }
        structs
    }
}

/// The structs whose functions are the simulator's: none of them is NULL.
const OURS: [&str; 2] = ["dumbbell_host", "dumbbell_wire"];
/// The structs that a plugin fills in, in which nothing is known at first.
const ANSWERS: [&str; 2] = ["dumbbell_model", "dumbbell_stack_stats"];

/// Returns the name in Rust of a type of C.
fn in_rust(name: &str) -> String {
    match name {
        "void" => "()".to_owned(),
        "bool" => "bool".to_owned(),
        "int" | "char" => format!("c_{name}"),
        "double" => "f64".to_owned(),
        "dumbbell_flag" => "Flag".to_owned(),
        _ => {
            if let Some(whole) = name.strip_suffix("_t") {
                return whole.replace("uint", "u").replace("int", "i");
            }
            let words = name.strip_prefix("dumbbell").unwrap_or_else(|| panic!("the type {name} in dumbbell.h")).split('_');
            words
                .fold("C".to_owned(), |made, word| made + &word[..word.len().min(1)].to_uppercase() + word.get(1..).unwrap_or(""))
        }
    }
}

/// Returns the type in Rust of a pointer to a function.
fn function(arguments: &[Field], result: &str) -> String {
    let argument = |Field { name, kind, .. }: &Field| {
        let name = if name == "self" { "this" } else { name };
        let kind = match kind {
            Type::Plain(plain) => plain.clone(),
            Type::Function(own, returned) => function(own, returned),
        };
        if name.is_empty() {
            kind
        } else {
            format!("{name}: {kind}")
        }
    };
    let arguments: Vec<String> = arguments.iter().map(argument).collect();
    let result = if result == "()" { String::new() } else { format!(" -> {result}") };
    format!("extern \"C\" fn({}){result}", arguments.join(", "))
}

fn constants(header: &str) -> String {
    let mut text = String::new();
    for line in header.lines().filter_map(|line| line.strip_prefix("#define DUMBBELL_")) {
        let mut parts = line.splitn(3, ' ');
        let (name, value) = (parts.next().expect("a name"), parts.next());
        let doc = parts.next().unwrap_or("").trim().trim_start_matches("/* ").trim_end_matches(" */");
        let (kind, value) = match value {
            None => continue,
            Some("UINT64_MAX") => ("u64", "u64::MAX"),
            Some(value) => ("u32", value.strip_suffix('u').expect("an unsigned number")),
        };
        write_doc(&mut text, "", doc);
        let _ = writeln!(text, "pub const {name}: {kind} = {value};");
    }
    text
}

fn write_doc(text: &mut String, indent: &str, doc: &str) {
    if !doc.is_empty() {
        let _ = writeln!(text, "{indent}/// {doc}");
    }
}

/// A string has values in the word `Text`.
fn word(kind: &Type) -> &str {
    match kind {
        Type::Plain(kind) if kind == "*const c_char" => "Text",
        Type::Plain(kind) if !kind.starts_with('*') => kind,
        _ => "Pointer",
    }
}

fn main() {
    let (folder, made) = [env::var("CARGO_MANIFEST_DIR"), env::var("OUT_DIR")].map(|set| set.expect("set by cargo")).into();
    let path = Path::new(&folder).join("include/dumbbell.h");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={}", path.display());
    let header = fs::read_to_string(path).expect("the header is there");
    let structs = Reader { tokens: split(&header).into_iter().peekable() }.structs();

    let mut types = "// The types of dumbbell.h, from which this file is made. Licence: MIT OR Apache-2.0.\n\n".to_owned();
    types += "use std::ffi::{c_char, c_int, c_void};\n\n";
    types += &constants(&header);
    types += "/// 0 or 1.\npub type Flag = u32;\n";
    let mut fields =
        "/// Calls a macro with what follows its name and then the fields of a struct, each with a word for its type.\n"
            .to_owned();
    fields += "#[macro_export]\nmacro_rules! with_fields {\n";
    let mut layout = "&[\n".to_owned();
    for table in &structs {
        let (rust, is_ours) = (in_rust(&table.name), OURS.contains(&table.name.as_str()));
        types += "\n";
        write_doc(&mut types, "", &table.doc);
        let has_functions = table.fields.iter().any(|field| matches!(field.kind, Type::Function(..)));
        let derived = if has_functions { "Clone, Copy" } else { "Clone, Copy, Debug, PartialEq" };
        let _ = writeln!(types, "#[repr(C)]\n#[derive({derived})]\npub struct {rust} {{");
        for Field { name, doc, kind } in &table.fields {
            write_doc(&mut types, "    ", doc);
            let _ = match kind {
                Type::Plain(kind) => writeln!(types, "    pub {name}: {kind},"),
                Type::Function(arguments, result) if is_ours => {
                    writeln!(types, "    pub {name}: {},", function(arguments, result))
                }
                Type::Function(arguments, result) => {
                    writeln!(types, "    pub {name}: Option<unsafe {}>,", function(arguments, result))
                }
            };
        }
        types += "}\n";
        if ANSWERS.contains(&table.name.as_str()) {
            let _ = writeln!(types, "\nimpl {rust} {{\n    /// Nothing is known.\n    pub const UNKNOWN: {rust} = {rust} {{");
            for Field { name, kind, .. } in &table.fields {
                let unknown = match word(kind) {
                    "Text" => "std::ptr::null()",
                    "f64" => "f64::NAN",
                    "Flag" => "Flag::MAX",
                    _ => "u64::MAX",
                };
                let _ = writeln!(types, "        {name}: {unknown},");
            }
            types += "    };\n}\n";
        }
        let _ = write!(fields, "    ({rust}, $then:ident! $($more:tt)*) => {{ $then! {{ $($more)*");
        let _ = writeln!(layout, "(\"{}\", size_of::<{rust}>(), align_of::<{rust}>(), &[", table.name);
        for Field { name, kind, .. } in &table.fields {
            let _ = write!(fields, " {name}: {},", word(kind));
            let _ = writeln!(layout, "    (\"{name}\", offset_of!({rust}, {name}), \"{}\"),", word(kind));
        }
        fields += " } };\n";
        layout += "]),\n";
    }
    for (file, text) in [("abi.rs", types), ("fields.rs", fields + "}\n"), ("layout.rs", layout + "]\n")] {
        fs::write(Path::new(&made).join(file), text).expect("OUT_DIR takes files");
    }
}
