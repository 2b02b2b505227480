//! The data that the experiments read: generated, the same on every machine and at every time.

pub(crate) mod array;
pub(crate) mod objects;
pub(crate) mod source_tree;
