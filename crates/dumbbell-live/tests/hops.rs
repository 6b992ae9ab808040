//! What runs on the real clock has one hop.

use serde_json::json;

#[test]
fn several_hops_are_refused() {
    let flow = json!({"cc": {"name": "cubic"}});
    let one = json!({"duration": 1_000_000_000, "bottleneck": {"aqm": {"name": "codel"}}, "flows": [flow]});
    let mut both = one.clone();
    both["reverse"] = json!({"aqm": {"name": "codel"}});
    for check in [dumbbell_live::run::check, dumbbell_live::shell::check] {
        let error = check(&both).expect_err("two hops").to_string();
        assert!(error.starts_with("hop: found several hops, or routes, allowed: one hop"), "{error}");
        assert!(!check(&one).is_err_and(|other| other.key == "hop"));
    }
}
