//! Access profiles of earlier runs: where they are kept.
//!
//! What a profile is and what it learns is in `forebay_profile`.

pub mod store;
