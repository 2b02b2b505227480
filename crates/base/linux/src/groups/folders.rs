//! Finds the folders of a control group.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::groups::mounts::Hierarchy;

/// The folders of a control group: one for all controllers (version 2), one for each (version 1), or some of both.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Folders {
    /// Of version 2.
    pub unified: Option<PathBuf>,
    /// Of version 1, by controller.
    pub old: BTreeMap<String, PathBuf>,
    /// The one that was named, or that is likeliest to have the processes.
    pub processes: PathBuf,
}

impl Folders {
    /// All folders of the group that `path` names, by one of them or by its name in the hierarchies; `None` where there are
    /// none.
    #[must_use]
    pub fn find(mountinfo: &str, path: &Path) -> Option<Self> {
        let hierarchies: Vec<Hierarchy<'_>> = Hierarchy::all(mountinfo).collect();
        let within = hierarchies.iter().filter_map(|hierarchy| path.strip_prefix(hierarchy.mount).ok());
        // The longest mount point: one may lie in another.
        let by_folder = within.min_by_key(|rest| rest.components().count());
        if by_folder.is_some() && !path.is_dir() {
            return None;
        }
        let name = by_folder.unwrap_or_else(|| path.strip_prefix("/").unwrap_or(path));
        let mut found = Self::default();
        let mut folders = Vec::new();
        for hierarchy in hierarchies {
            let folder = hierarchy.mount.join(name);
            if !folder.is_dir() {
                continue;
            }
            folders.push(folder.clone());
            if hierarchy.unified {
                found.unified.get_or_insert(folder);
            } else {
                for option in hierarchy.options() {
                    found.old.entry(option.to_owned()).or_insert_with(|| folder.clone());
                }
            }
        }
        let named = folders.iter().find(|folder| *folder == path);
        let likely = || found.old.get("memory").or(found.unified.as_ref());
        found.processes = named.or_else(likely).or(folders.first())?.clone();
        Some(found)
    }
}

/// Folders of the groups of `controller` that a process is in, and of those around them, for each version the innermost first: by
/// the texts of `/proc/PID/cgroup` and `/proc/self/mountinfo`.
pub(super) fn chain(controller: &str, membership: &str, mountinfo: &str) -> Vec<PathBuf> {
    let mut found = vec![];
    for line in membership.lines() {
        // ID:CONTROLLERS:PATH; version 2 names no controllers.
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let unified = controllers.is_empty();
        if !unified && controllers.split(',').all(|other| other != controller) {
            continue;
        }
        let limits = |hierarchy: &Hierarchy<'_>| {
            hierarchy.unified == unified
                && (unified || hierarchy.options().any(|option| option == controller))
        };
        let Some(Hierarchy { root, mount, .. }) = Hierarchy::all(mountinfo).find(limits) else { continue };
        let innermost = mount.join(Path::new(path).strip_prefix(root).unwrap_or(Path::new("")));
        let around = innermost.ancestors().take_while(|folder| folder.starts_with(mount));
        found.extend(around.map(Path::to_owned));
    }
    found
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_group_is_found_by_a_folder_or_by_its_name_in_all_hierarchies() {
        let root = std::env::temp_dir().join(format!("forebay-folders-{}", std::process::id()));
        for folder in ["memory/web", "cpu,cpuacct/web", "unified/web", "blkio"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        let at = |name: &str| format!("{}/{name}", root.display());
        let text = format!(
            "31 23 0:28 / {} rw,relatime - tmpfs tmpfs rw,mode=755\n\
             35 31 0:32 / {} rw,relatime shared:9 - cgroup cgroup rw,memory\n\
             36 31 0:32 / {} rw,relatime - cgroup cgroup rw,cpu,cpuacct\n\
             39 31 0:35 / {} rw,relatime - cgroup cgroup rw,blkio\n\
             41 31 0:38 / {} rw,relatime - cgroup2 cgroup2 rw\n",
            root.display(),
            at("memory"),
            at("cpu,cpuacct"),
            at("blkio"),
            at("unified")
        );
        let by_folder = Folders::find(&text, Path::new(&at("cpu,cpuacct/web")));
        let by_name = Folders::find(&text, Path::new("web"));
        let none = [at("memory/nosuch"), "nosuch".into(), "/nosuch/web".into()]
            .map(|path| Folders::find(&text, Path::new(&path)));
        fs::remove_dir_all(&root).unwrap();

        let by_folder = by_folder.unwrap();
        assert_eq!(by_folder.processes.as_path(), Path::new(&at("cpu,cpuacct/web")));
        assert_eq!(by_folder.unified, Some(at("unified/web").into()));
        assert_eq!(by_folder.old["memory"], Path::new(&at("memory/web")));
        assert_eq!(by_folder.old["cpuacct"], Path::new(&at("cpu,cpuacct/web")));
        assert!(!by_folder.old.contains_key("blkio"));
        assert_eq!(by_name.unwrap().old, by_folder.old);
        assert_eq!(none, [None, None, None]);
    }
}
