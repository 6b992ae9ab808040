//! What a panic says before it ends the process.
//!
//! Licence: MIT OR Apache-2.0.

/// From now on, a panic says why in one line, with the name of the stack.
pub fn say(name: &'static str) {
    std::panic::set_hook(Box::new(move |panic| {
        let payload = panic.payload();
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic");
        let place = panic.location().map_or_else(String::new, |place| {
            let parts: Vec<&str> = place.file().split(['/', '\\']).collect();
            let file = parts[parts.len().saturating_sub(4)..].join("/");
            format!(" ({file}:{})", place.line())
        });
        eprintln!("{name} panicked: {}{place}", text.replace(['\n', '\r'], " "));
    }));
}
