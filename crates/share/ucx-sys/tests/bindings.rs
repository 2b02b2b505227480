//! The committed bindings equal those that bindgen makes of the headers.

use std::fs;

const HEADERS: &str = "
    #include <ucp/api/ucp.h>
    #include <ucs/config/global_opts.h>
    #include <ucs/debug/debug.h>
";
const FUNCTIONS: &str = "ucp_(get_version|config_(read|modify|release)|init_version|cleanup|worker_(create|destroy|progress|arm|get_efd|get_address|release_address|set_am_recv_handler|flush_nbx)|ep_(create|close_nbx)|am_(send_nbx|recv_data_nbx|data_release)|request_(free|check_status))|ucs_(status_string|global_opts_set_value|debug_disable_signal)";
const ENUMS: &str = "ucp_(params_field|feature|worker_params_field|ep_params_field|op_attr_t|am_recv_attr_t|am_cb_flags|am_handler_param_field|ep_close_flags_t)";
const CONSTANTS: &str = "UCP_API_(MAJOR|MINOR)";

const FILE: &str = "src/bindings.rs";
/// Set to write the bindings instead of comparing them.
const WRITE: &str = "FOREBAY_WRITE_BINDINGS";

#[test]
fn the_bindings_are_those_of_the_headers() {
    let made = bindgen::builder()
        .header_contents("ucx.h", HEADERS)
        .allowlist_function(FUNCTIONS)
        .allowlist_type(ENUMS)
        .allowlist_var(CONSTANTS)
        .dynamic_library_name("Ucp")
        .dynamic_link_require_all(true)
        .prepend_enum_name(false)
        .generate_comments(false)
        .layout_tests(false)
        .derive_debug(false)
        .formatter(bindgen::Formatter::Prettyplease)
        .generate()
        .expect("bindgen reads UCX's headers (libucx-dev) by means of libclang (libclang-dev)")
        .to_string();
    if std::env::var_os(WRITE).is_some() {
        fs::write(FILE, &made).unwrap();
    }
    let committed = fs::read_to_string(FILE).unwrap();
    let version =
        |bindings: &str| bindings.lines().find(|line| line.contains("UCP_API_MINOR")).map(str::to_owned);
    if version(&made) != version(&committed) {
        // Other headers than those that the bindings were made of have more fields at the ends of structures.
        println!("not compared: this is another version of UCX");
        return;
    }
    assert!(made == committed, "{FILE} is not what bindgen makes: run this test with {WRITE}=1");
}
