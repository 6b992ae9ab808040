//! The types of `include/dumbbell.h`, which explains them. `build.rs` derives them from it.

use dumbbell_core::fork::CannotFork;

include!(concat!(env!("OUT_DIR"), "/abi.rs"));
include!(concat!(env!("OUT_DIR"), "/fields.rs"));

/// The text of these types, for plugins in Rust.
pub const SOURCE: &str = include_str!(concat!(env!("OUT_DIR"), "/abi.rs"));

/// The version before, whose functions end before `clone`.
pub const ABI_WITHOUT_COPIES: u32 = 4;
/// The third, whose description ends before `media`, and whose stacks end before `stream_write`.
pub const ABI_WITHOUT_STREAMS: u32 = 3;
/// The second, whose controls end before `model`, too.
pub const ABI_WITHOUT_MODELS: u32 = 2;
/// The first, whose description ends before `stack`.
pub const ABI_WITHOUT_STACKS: u32 = 1;

/// The functions that a plugin calls, and what they lead to. A plugin knows of the functions alone.
#[repr(C)]
pub(crate) struct Callbacks<T> {
    pub functions: T,
    pub call: *mut c_void,
}

/// The function `clone` of a kind of plugin.
pub(crate) type CloneFunction = Option<unsafe extern "C" fn(*const c_void) -> *mut c_void>;

/// Returns the copy of the instance `this` that `clone` makes; null if there is no instance.
///
/// # Errors
/// The library makes none.
///
/// # Safety
/// `this` is null, or came from `create` of the library of `clone`, and nothing uses it during the call.
#[allow(unsafe_code)]
pub(crate) unsafe fn clone_instance(clone: CloneFunction, this: *mut c_void) -> Result<*mut c_void, CannotFork> {
    if this.is_null() {
        return Ok(this);
    }
    let Some(clone) = clone else {
        return Err(CannotFork::because("its library has no clone(), which version 5 of dumbbell.h has"));
    };
    // SAFETY: the condition above
    let copy = unsafe { clone(this) };
    if copy.is_null() {
        return Err(CannotFork::because("clone() returned NULL"));
    }
    Ok(copy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;
    use std::path::PathBuf;
    use std::process::Command;

    type Fields = &'static [(&'static str, usize, &'static str)];
    const LAYOUT: &[(&str, usize, usize, Fields)] = include!(concat!(env!("OUT_DIR"), "/layout.rs"));

    /// The type of C for a word of the layout; a pointer is compared by its place alone.
    fn in_c(word: &str) -> Option<&str> {
        Some(match word {
            "u64" => "uint64_t",
            "u32" | "Flag" => "uint32_t",
            "u16" => "uint16_t",
            "u8" => "uint8_t",
            "i64" => "int64_t",
            "f64" => "double",
            "bool" => "_Bool",
            "Text" => "const char *",
            "Pointer" => return None,
            other => panic!("{other}"),
        })
    }

    #[test]
    fn a_compiler_of_c_finds_every_field_where_rust_has_it() {
        let mut asserts = "#include \"dumbbell.h\"\n".to_owned();
        for (name, size, align, fields) in LAYOUT {
            asserts += &format!("_Static_assert(sizeof({name}) == {size} && _Alignof({name}) == {align}, \"{name}\");\n");
            for (field, offset, word) in *fields {
                asserts += &format!("_Static_assert(offsetof({name}, {field}) == {offset}, \"{name}.{field}\");\n");
                if let Some(kind) = in_c(word) {
                    let test = format!("_Generic((({name} *)0)->{field}, {kind}: 1, default: 0)");
                    asserts += &format!("_Static_assert({test}, \"{name}.{field} is {word}\");\n");
                }
            }
        }
        let count = LAYOUT.iter().map(|(_, _, _, fields)| fields.len()).sum::<usize>();
        assert!(LAYOUT.len() >= 15 && count >= 130, "{} structs, {count} fields", LAYOUT.len());
        let source = PathBuf::from(env!("OUT_DIR")).join("layout.c");
        std::fs::write(&source, asserts).expect("a folder to write to");
        let include = concat!(env!("CARGO_MANIFEST_DIR"), "/include");
        let done =
            Command::new("cc").args(["-std=c11", "-fsyntax-only", "-I", include]).arg(&source).output().expect("a C compiler");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    #[test]
    fn the_host_of_python_has_the_functions_of_the_header() {
        let text = include_str!("../../dumbbell-py/src/prototype.rs");
        let methods = text.split_once("#[pymethods]\nimpl PyHost {").expect("methods").1.split_once("\n}\n").expect("an end").0;
        let found: Vec<&str> = methods.lines().filter_map(|line| line.strip_prefix("    fn ")?.split('(').next()).collect();
        let (_, _, _, functions) = LAYOUT.iter().find(|(name, ..)| *name == "dumbbell_host").expect("the host");
        assert_eq!(found, functions.iter().map(|(name, ..)| *name).collect::<Vec<_>>());
    }
}
