//! Tests of command lines, one a line.

/// One test a line: `name: fixture, [program, argument...]` with further calls on the case after `=>`.
#[macro_export]
macro_rules! commands {
    ($($name:ident: $fixture:expr, [$($argument:expr),+ $(,)?] $(=> $($call:ident($($value:expr),*)).+)?;)+) => {
        $(#[test]
        fn $name() {
            let case = $crate::Case::new(stringify!($name), [$($argument),+]).setup($fixture).without_statistics();
            let _ = case $($(.$call($($value),*))+)? .check();
        })+
    };
}

/// One test a line, run by a shell: `name: fixture, "script"`.
#[macro_export]
macro_rules! scripts {
    ($($name:ident: $fixture:expr, $shell:literal, $script:expr $(=> $($call:ident($($value:expr),*)).+)?;)+) => {
        $(#[test]
        fn $name() {
            let case = $crate::Case::new(stringify!($name), [$shell, "-c", $script]).setup($fixture).without_statistics();
            let _ = case $($(.$call($($value),*))+)? .check();
        })+
    };
}
