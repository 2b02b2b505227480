//! The experiments that come with forebay.

/// An experiment that comes with forebay.
#[derive(Clone, Copy, Debug)]
pub struct Shipped {
    /// What it is called.
    pub name: &'static str,
    /// Its file.
    pub text: &'static str,
}

impl Shipped {
    /// What it is about, in one line.
    #[must_use]
    pub fn title(&self) -> &'static str {
        let line = self.text.lines().find_map(|line| line.strip_prefix("title = \""));
        line.and_then(|line| line.strip_suffix('"')).unwrap_or_default()
    }
}

/// All of them.
pub const SHIPPED: [Shipped; 4] = [
    Shipped { name: "web", text: include_str!("../../shipped/web.toml") },
    Shipped { name: "streaming", text: include_str!("../../shipped/streaming.toml") },
    Shipped { name: "router", text: include_str!("../../shipped/router.toml") },
    Shipped { name: "any", text: include_str!("../../shipped/any.toml") },
];

/// The one of this name.
#[must_use]
pub fn shipped(name: &str) -> Option<Shipped> {
    SHIPPED.into_iter().find(|shipped| shipped.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::Description;

    #[test]
    fn every_one_can_be_read_and_has_something_to_run() {
        for shipped in SHIPPED {
            let described = Description::read(shipped.text, &[])
                .unwrap_or_else(|error| panic!("{}: {error}", shipped.name));
            assert!(!described.trials().is_empty(), "{}", shipped.name);
            assert_eq!(described.title, shipped.title());
        }
    }
}
