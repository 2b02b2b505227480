//! `forebay serve`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use forebay_server::{Error, Folder, Serving, Settings};

use crate::args::Serve;

/// Serves until a signal comes.
pub fn run(args: Serve) -> anyhow::Result<ExitCode> {
    if let Some(config) = &args.check {
        return check(config);
    }
    if args.cameras.list_cameras {
        return list_cameras(&args);
    }
    // Before any thread starts: each thread inherits the mask, and only the event loop reads signals.
    Serving::block_signals()?;
    let mut serving = Serving::new(settings(&args)?)?;
    serving.heed_signals()?;
    for address in serving.addresses() {
        eprintln!("forebay: listening on {address}");
    }
    if let Some(onvif) = serving.onvif() {
        eprintln!("forebay: ONVIF clients are answered at http://{}/onvif/device_service", onvif.http);
        if let Err(error) = &onvif.discovery {
            eprintln!("forebay: cameras cannot be discovered: {error}; ONVIF clients need their address");
        }
    }
    serving.reload_with(Box::new(move || settings(&args).map_err(|error| error.to_string())));
    serving.run()?;
    Ok(ExitCode::SUCCESS)
}

fn check(config: &Path) -> anyhow::Result<ExitCode> {
    Serving::check(&Settings::read(config)?)?;
    println!("{} is right", config.display());
    Ok(ExitCode::SUCCESS)
}

/// Prints a line for each camera.
fn list_cameras(args: &Serve) -> anyhow::Result<ExitCode> {
    let settings = settings(args)?;
    if let Some(cameras) = &settings.cameras {
        print!("{}", forebay_server::list_cameras(cameras, settings.packet_bytes)?);
    }
    Ok(ExitCode::SUCCESS)
}

/// The settings of the file, if there is one, overridden by the options of the command line.
fn settings(args: &Serve) -> forebay_server::Result<Settings> {
    let mut settings = match &args.config {
        Some(config) => Settings::read(config)?,
        None => Settings::of(Vec::new()),
    };
    settings.cameras = args.cameras.settings(&args.folders, args.memory)?;
    if !args.folders.is_empty() {
        settings.folders = match settings.cameras {
            Some(_) => vec![folder_of(&args.folders[0])],
            None => folders(&args.folders, &settings.folders)?,
        };
    }
    fn set<T: Clone>(to: &mut T, value: &Option<T>) {
        value.iter().for_each(|value| *to = value.clone());
    }
    set(&mut settings.udp_ports, &args.udp_ports);
    set(&mut settings.memory_bytes, &args.memory);
    set(&mut settings.late, &args.late);
    set(&mut settings.buffers, &args.buffers.map(usize::from));
    set(&mut settings.readers, &args.readers.map(usize::from));
    settings.buffer_bytes = args.buffer_size.or(settings.buffer_bytes);
    settings.status = args.status.or(settings.status);
    settings.follow_links |= args.follow_links;
    settings.cache = args.cache.clone().or(settings.cache).or_else(cache_folder);
    settings.access_log = args.access_log.clone().or(settings.access_log);
    settings.run_as = args.user.clone().or(settings.run_as);
    if !args.listen.is_empty() {
        settings.listen.clone_from(&args.listen);
    }
    Ok(settings)
}

/// The folders of the command line, which take the place of those of a file.
fn folders(paths: &[PathBuf], of_file: &[Folder]) -> forebay_server::Result<Vec<Folder>> {
    let refused = |why: String| Error::Folders { why };
    // Its folders may be for some users only, and those of the command line are for all.
    if let Some(named) = of_file.iter().find(|folder| !folder.name.is_empty()) {
        let why =
            format!("the settings file has folders, such as {}: leave out DIR, or --config", named.name);
        return Err(refused(why));
    }
    if let [sole] = paths {
        return Ok(vec![Folder::sole(sole.clone())]);
    }
    let mut all: Vec<Folder> = Vec::new();
    for path in paths {
        let folder = Folder::called_as_it_is(path.clone()).map_err(refused)?;
        if all.iter().any(|other| other.name == folder.name) {
            let why =
                format!("two folders are called {}: a settings file gives them other names", folder.name);
            return Err(refused(why));
        }
        all.push(folder);
    }
    Ok(all)
}

/// Cameras play films, and the files beside the first one are not served.
fn folder_of(film: &Path) -> Folder {
    let folder = film.parent().unwrap_or(film);
    Folder::sole(if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder.to_owned() })
}

/// Where this user's programs keep what they can make again: what systemd gives a service, or the folder of the desktop.
fn cache_folder() -> Option<PathBuf> {
    let folder = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    // A service has several folders at times.
    let of_service = folder("CACHE_DIRECTORY")
        .filter(|path| path.is_absolute() && !path.as_os_str().as_encoded_bytes().contains(&b':'));
    let of_user = || folder("XDG_CACHE_HOME").or_else(|| folder("HOME").map(|home| home.join(".cache")));
    of_service.or_else(|| of_user().filter(|path| path.is_absolute()).map(|path| path.join("forebay")))
}
